"""Base of the sections of a pipeline's definition; each section is declared by the package that it configures.

The models are the validation, the JSON Schema for editors and the reference page. Names are kebab-case; property names of
Kafka and Flink CDC stay as they are. An unknown name is an error that shows the nearest known one.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def kebab(name: str) -> str:
    """The option name of an attribute: `max-records-per-batch`."""
    return name.replace("_", "-")


class Section(BaseModel):
    """A section of the definition; immutable."""

    # By alias only: the Python name `max_records_per_batch` is an unknown option.
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=kebab, hide_input_in_errors=True)
