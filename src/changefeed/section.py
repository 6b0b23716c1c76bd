"""Base of the sections of a pipeline's definition; each section is declared by the package that it configures.

The models are the validation, the JSON Schema for editors and the reference page. Names are kebab-case; property names of
Kafka and Flink CDC stay as they are. An unknown name is an error that shows the nearest known one.
"""

from __future__ import annotations

import re
from typing import Any

from pydantic import BaseModel, ConfigDict, Field


def kebab(name: str) -> str:
    """The option name of an attribute: `max-records-per-batch`."""
    return name.replace("_", "-")


class Section(BaseModel):
    """A section of the definition; immutable."""

    # By alias only: the Python name `max_records_per_batch` is an unknown option.
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=kebab, hide_input_in_errors=True)


class ProtocolChoice(Section):
    """A protocol and its options, with the producer's names."""

    model_config = ConfigDict(extra="allow", frozen=True)
    name: str = Field(description="One of `changefeed list`.")

    @property
    def options(self) -> dict[str, Any]:
        """The options, in the form that the protocol takes."""
        return dict(self.model_extra or {})

    @classmethod
    def named(cls, value: Any) -> Any:
        """Accepts the name alone."""
        return {"name": value} if isinstance(value, str) else value


def readable_path(value: str) -> str:
    """Returns the path or URL of a folder.

    Raises:
        ValueError: it contains a password, or something that readers take for another character.
    """
    if re.match(r"(s3\w*://[^/]*|\w+://[^/@]*:[^/]*)@", value):
        raise ValueError(
            "takes no keys or passwords, because logs and commands print paths: give them as the file "
            "system's own properties under `spark`, as `spark.hadoop.fs.s3a.secret.key: ${AWS_SECRET_ACCESS_KEY}`"
        )
    if match := re.search(r"%[0-9A-Fa-f]{2}", value):
        raise ValueError(
            f"readers that treat every path as a URL take {match[0]!r} in {value} for another character: name the folder "
            "without it"
        )
    return value
