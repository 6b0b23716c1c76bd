"""A part of a pipeline's definition, as the room that it is about declares it.

The models are the validation, the JSON Schema for editors and the reference page. Names are kebab-case; Kafka's and
Flink CDC's own property names stay as they are. An unknown name is an error that shows the nearest known one.
"""

from __future__ import annotations

from pydantic import BaseModel, ConfigDict


def kebab(name: str) -> str:
    """The name of an option, from that of its attribute: `max-records-per-batch`."""
    return name.replace("_", "-")


class Section(BaseModel):
    """A part of the definition; immutable once read."""

    # By alias alone: a Python name, as `max_records_per_batch`, is an unknown name like any other.
    model_config = ConfigDict(extra="forbid", frozen=True, alias_generator=kebab, hide_input_in_errors=True)
