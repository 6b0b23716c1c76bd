"""The definition of a pipeline, validated. Sources and sinks declare their own sections."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from datetime import timedelta
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias, Union

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    ValidationError,
    WrapValidator,
    field_validator,
    model_validator,
)
from pydantic_core import InitErrorDetails

from changefeed.errors import ConfigError
from changefeed.modules import is_own, own_section
from changefeed.mysql.zone import zone
from changefeed.pipeline.config.patterns import check_patterns, split_list, table_patterns
from changefeed.pipeline.store.base import Keep
from changefeed.section import Section, readable_path
from changefeed.sinks import sink_sections
from changefeed.sources import source_sections
from changefeed.storage.section import StorageSection

if TYPE_CHECKING:
    from changefeed.sinks.section import SinkSection
    from changefeed.sources.section import ChangesSection


OWN_TAG = "own:"  # begins the tag of a model in a module of one's own, in the place of an error


def _expanded(written: Any) -> Any:
    """The section with a source's shorthand replaced by the options it stands for."""
    for section in source_sections().values():
        written = section.expanded(written) if isinstance(written, dict) else written
    return written


def or_own(kind: str, written: Any) -> WrapValidator:
    """Validates a section whose type is a module of one's own by that module's model; `written` is for the JSON Schema."""

    def validate(section: Any, handler: Callable[[Any], Any]) -> Any:
        name = section.get("type") if isinstance(section, dict) else None
        if not is_own(name):
            return handler(section)
        try:
            model: type[BaseModel] = own_section(kind, str(name))
        except ConfigError as error:
            raise ValueError(str(error)) from error
        try:
            return model.model_validate(section)
        except ValidationError as error:  # the tag leads `problems` to the model, as that of a union does
            tag = f"{OWN_TAG}{name}"
            details = [
                InitErrorDetails(type=e["type"], loc=(tag, *e["loc"]), input=e["input"], ctx=e.get("ctx", {}))
                for e in error.errors()
            ]
            raise ValidationError.from_exception_data(error.title, details) from error

    return WrapValidator(validate, json_schema_input_type=written)


def one_of(sections: Iterable[Any]) -> Any:
    """The union type of these sections, distinguished by `type`."""
    models = tuple(sections)
    return Annotated[Union[models], Field(discriminator="type")] if len(models) > 1 else models[0]  # noqa: UP007  # a tuple


def _interval(value: str) -> str:
    if not re.fullmatch(r"\d+ (millisecond|second|minute|hour|day)s?", value):
        raise ValueError(f"expected a number and a unit, such as `1 second` or `5 minutes`, not {value!r}")
    return value


def _address(value: str) -> str:
    host, _, port = value.rpartition(":")
    if not (host and port.isascii() and port.isdigit() and int(port) < 2**16):
        raise ValueError(f"expected host:port, such as `127.0.0.1:9464`, not {value!r}")
    return value


def _collector(value: str) -> str:
    if not re.match(r"https?://[^/]", value):
        raise ValueError(f"expected a URL, such as `http://127.0.0.1:4318`, not {value!r}")
    return value


# Options that the sections `pipeline` of both kinds of definitions have.
Interval: TypeAlias = Annotated[str, AfterValidator(_interval)]
"""An interval such as `5 minutes`."""
PipelineName: TypeAlias = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9_.-]+$", description="Name of the pipeline; the ledger belongs to it.")
]
RetryBackoff: TypeAlias = Annotated[
    Interval,
    Field(description="Wait before the first retry: `1 second`. It doubles with each retry, up to a minute."),
]
MetricsAddress: TypeAlias = Annotated[
    Annotated[str, AfterValidator(_address)] | None,
    Field(
        description="Address at which a run serves its metrics to Prometheus: `127.0.0.1:9464`. Without it, none are served."
    ),
]
MetricsCollector: TypeAlias = Annotated[
    Annotated[str, AfterValidator(_collector)] | None,
    Field(
        description="URL of an OpenTelemetry collector to which a run sends its metrics by OTLP over HTTP: `http://127.0.0.1:4318`."
    ),
]


class Behaviour(Section):
    """The section `pipeline`: how changes are applied."""

    name: PipelineName = "changefeed"
    folder: str | None = Field(
        default=None,
        description="Folder of the pipeline's own files: ledger, pending changes, dead letters. Without it, `_changefeed` in "
        "`sink.path`. Set it before the first run; every pipeline needs a folder of its own.",
    )
    consistency: Literal["transaction", "key"] = Field(
        default="transaction",
        description="`transaction`: all tables move together from one consistent cut to the next. `key`: each batch is applied "
        "as it is read, in order for each key; some tables may be ahead of others.",
    )
    dead_letters: Literal["stop", "quarantine", "continue"] = Field(
        default="stop",
        description="What to do after a record that cannot be decoded: stop the run; hold back its table (`quarantine`); or "
        "continue without the record. It is kept as a dead letter in every case.",
    )
    keyless: Literal["append", "inserts", "refuse"] = Field(
        default="append",
        description="What to do with tables without a handle key. `append`: append inserts, and stop at an update or delete. "
        "`inserts`: append inserts, and skip updates and deletes. `refuse`: stop.",
    )
    include: list[str] = Field(
        default_factory=list,
        description="Tables to apply, such as `shop.*`; left out, all. The others are skipped, as with `exclude`. Both take the "
        "patterns of TiCDC and of Debezium: see *Patterns of tables* in the guide *Consistency*.",
    )
    exclude: list[str] = Field(
        default_factory=list,
        description="Tables to skip, such as `shop.audit` or `tmp.*`, whether `include` has them or not; also applies to a step "
        "that has begun.",
    )
    schema_change_behavior: Literal["evolve", "try_evolve", "lenient", "ignore", "exception"] = Field(
        default="evolve",
        alias="schema.change.behavior",
        description="How schema changes are applied. `evolve`: to the sink's tables; one that cannot be applied stops the run. "
        "`try_evolve`: the same, but such a change is noted, and applied as far as possible. `lenient`: as "
        "`try_evolve`, and drops and truncations are only noted, so that no data is lost. `ignore`: all are only noted. "
        "`exception`: every schema change stops the run.",
    )
    incomplete_transactions: Literal["wait", "apply"] = Field(
        default="wait",
        description="What to do with a transaction that lacks events although the source has nothing more to read, because a "
        "transform, a filter or compaction has removed them. `wait`: it waits, with all later changes, and `status` names it. "
        "`apply`: apply what was read of it. For sources that send the ends of transactions, and consistency `transaction`.",
    )
    session_time_zone: str | None = Field(
        default=None,
        description="Time zone of the sessions that execute DDL upstream, such as `UTC`, `Asia/Shanghai` or `+08:00`. No "
        "producer sends it, but the values of existing rows depend on it if a TIMESTAMP becomes another type, a TIME "
        "gets a date, or a new column has `TIMESTAMP DEFAULT '2026-01-01 …'` or `DATETIME DEFAULT CURRENT_TIMESTAMP`. "
        "Without it, such a statement is one that cannot be applied, see `schema.change.behavior`.",
    )
    parallelism: int = Field(default=4, ge=1, le=64, description="Number of tables written at the same time.")
    trigger_interval: Interval = Field(
        default="1 second",
        description="Interval between reads of new records, for a run without `--once`: `1 second`, `5 minutes`.",
    )

    max_retries: int = Field(
        default=5,
        ge=0,
        description="Maximum number of retries without a completed step in between, after transient errors: unavailable "
        "brokers or schema registries, throttled storage, an overloaded machine. A run that follows its source does not end "
        "while that is away.",
    )
    retry_backoff: RetryBackoff = "1 second"

    metrics: MetricsAddress = None
    metrics_otlp: MetricsCollector = None
    metrics_by_table: bool = Field(
        default=False,
        description="Whether there are metrics for each topic, partition and table, too.",
    )

    keep_cuts: str = Field(
        default="all",
        description="Cuts that the ledger keeps: `all`; the newest ones, by number (`10000`); or those of a period (`30 days`). "
        "Older cuts are deleted a hundred at a time, and `status` no longer shows them.",
    )

    @property
    def retention(self) -> Keep:
        """The cuts that the ledger keeps."""
        number, _, unit = self.keep_cuts.partition(" ")
        if self.keep_cuts == "all":
            return Keep()
        return Keep(age=timedelta(**{f"{unit.rstrip('s')}s": int(number)})) if unit else Keep(cuts=int(number))

    @field_validator("keep_cuts", mode="before", json_schema_input_type=str | int)
    @classmethod
    def _cuts(cls, value: Any) -> Any:
        """Accepts a number, as YAML has it."""
        return str(value) if isinstance(value, int) and not isinstance(value, bool) else value

    @field_validator("keep_cuts")
    @classmethod
    def _all_or_some(cls, value: str) -> str:
        if not re.fullmatch(r"all|[1-9]\d{0,8}( (second|minute|hour|day)s?)?", value):
            raise ValueError(f"expected `all`, a number of cuts, or a time, as `30 days`, not {value!r}")
        return value

    def excludes(self, table: str) -> bool:
        """Whether a table, by `database.table`, is skipped: `include` does not select it, or `exclude` does."""
        if self.include and not table_patterns(tuple(self.include)).select(table):
            return True
        return bool(self.exclude) and table_patterns(tuple(self.exclude)).select(table)

    @field_validator("session_time_zone")
    @classmethod
    def _zone(cls, value: str | None) -> str | None:
        if value is not None:
            try:
                zone(value)
            except ConfigError as error:
                raise ValueError(f"{value!r} is not a time zone: use a name as `Asia/Shanghai`, or `+08:00`") from error
        return value

    @field_validator("folder")
    @classmethod
    def _readable(cls, value: str | None) -> str | None:
        return value if value is None else readable_path(value)

    @field_validator("include", "exclude", mode="before", json_schema_input_type=list[str] | str)
    @classmethod
    def _listed(cls, value: Any) -> Any:
        """Accepts one text with commas, as Debezium has it."""
        return split_list(value) if isinstance(value, str) else value

    @field_validator("include", "exclude")
    @classmethod
    def _selecting(cls, value: list[str]) -> list[str]:
        try:
            check_patterns(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    @model_validator(mode="after")
    def _together(self) -> Behaviour:
        if self.consistency == "key" and self.dead_letters == "quarantine":
            raise ValueError(
                "consistency `key` applies each batch at once and cannot hold a table back: use consistency `transaction`, "
                "or dead-letters `stop` or `continue`"
            )
        return self


class Own(Section):
    """A source, sink or ledger in a module of your own, which declares the other names.

    The guide [Sources and sinks of your own](../guides/own.md) shows such modules.
    """

    model_config = ConfigDict(extra="allow", frozen=True)
    type: str = Field(json_schema_extra={"pattern": r"\."})

    @field_validator("type")
    @classmethod
    def _module(cls, value: str) -> str:
        if not is_own(value):
            raise ValueError(
                f'unknown ledger "{value}": leave `ledger` out, for files beside the tables, or name a module of your own, '
                "as `my_package.my_ledger`"
            )
        return value


if TYPE_CHECKING:
    AnySource: TypeAlias = ChangesSection
    AnySink: TypeAlias = SinkSection
else:
    _SOURCES, _SINKS = one_of(source_sections().values()), one_of(sink_sections().values())
    _WRITTEN = Union[(_SOURCES, *(short for one in source_sections().values() for short in one.shorthands), Own)]
    AnySource = Annotated[
        _SOURCES, or_own("source", _SOURCES), BeforeValidator(_expanded, json_schema_input_type=_WRITTEN)
    ]
    AnySink = Annotated[_SINKS, or_own("sink", _SINKS | Own)]


class Definition(Section):
    """The whole definition of a pipeline."""

    source: AnySource
    sink: AnySink
    ledger: Annotated[Own, or_own("ledger", Own)] | None = Field(
        default=None, description="A ledger in a module of your own; without it, the ledger is files beside the tables."
    )
    pipeline: Behaviour = Field(default_factory=Behaviour)
    spark: dict[str, str] = Field(default_factory=dict, description="Properties of Spark, passed on unchanged.")
    storage: StorageSection = Field(default_factory=StorageSection)

    @model_validator(mode="after")
    def _apart(self) -> Definition:
        own, tables = self.pipeline.folder, self.sink.path
        if own is not None and own.rstrip("/") != f"{tables.rstrip('/')}/_changefeed" and _overlap(own, tables):
            raise ValueError(
                "pipeline.folder and sink.path must not be inside each other: give the pipeline a folder beside it"
            )
        return self

    @field_validator("spark", mode="before", json_schema_input_type=dict[str, str | int | float | bool])
    @classmethod
    def _texts(cls, value: Any) -> Any:
        """Converts numbers and booleans of YAML to Spark's texts: `4`, `true`."""
        if not isinstance(value, dict):
            return value
        plain = (bool, int, float)
        return {k: str(v).lower() if isinstance(v, plain) else v for k, v in value.items()}


def _overlap(a: str, b: str) -> bool:
    """Whether one of two folders is in the other, or is the other."""
    first, second = (f"{path.rstrip('/')}/" for path in (a, b))
    return first.startswith(second) or second.startswith(first)
