"""`source: {type: mysql}`: tables of a MySQL or MariaDB server, from its binary log."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, field_validator, model_validator

from changefeed.errors import ConfigError
from changefeed.model.names import names_of
from changefeed.mysql.gtid_set import parse
from changefeed.section import Section, kebab
from changefeed.sources.mysql.masks import ColumnPatterns, CompiledPatterns, Mask
from changefeed.sources.mysql.source_offset import LogPosition
from changefeed.sources.mysql.uri import DEFAULT_PORT, expanded
from changefeed.sources.section import ChangesSection
from changefeed.ticdc.dispatch.matcher import ColumnFilter, TableFilter

_MODES = ("initial", "initial_only", "no_data", "when_needed", "always", "recovery", "configuration_based")
_OLD_MODES = {
    "never": "no_data",
    "schema_only": "no_data",
    "schema_only_recovery": "recovery",
    "custom": "configuration_based",
}
_POSITION = re.compile(r"[^:\s]+\.\d{1,9}:\d{1,15}", re.ASCII)


@lru_cache(maxsize=16)
def _table_filter(patterns: tuple[str, ...]) -> TableFilter:
    """The patterns, compiled once: each schema change asks."""
    return TableFilter(patterns)


class ServerUriSource(Section):
    """The server by a URI. The other options may be beside it, but none that the URI has, too."""

    model_config = ConfigDict(extra="allow", frozen=True, alias_generator=kebab)
    type: Literal["mysql"]
    uri: str = Field(
        pattern=r"^(mysql|mariadb)://",
        description="`mysql://user:password@host:port/database`, percent-encoded, instead of `host`, `port`, `user` and "
        "`password`. With a database it stands for `tables: [database.*]`.",
    )


class MySqlSource(ChangesSection):
    """Tables of a MySQL or MariaDB server."""

    shorthands = (ServerUriSource,)

    type: Literal["mysql"]
    host: str = Field(description="Name or address of the server.")
    port: int = Field(default=DEFAULT_PORT, ge=1, le=65535, description="Its TCP port.")
    user: str = Field(description="The user that reads tables and the binary log.")
    password: str | None = Field(default=None, repr=False, description="Its password, such as `${MYSQL_PASSWORD}`.")
    password_file: str | None = Field(
        default=None, description="A file whose first line is the password, instead of `password`."
    )
    tables: list[str] = Field(
        default_factory=lambda: ["*.*"],
        description="The tables to capture: patterns of `database.table` as in TiCDC's table filter, such as `shop.*` or "
        "`!shop.tmp_*`. System databases are never captured.",
    )
    exclude_columns: list[str] = Field(
        default_factory=list,
        description="Columns that are not read: patterns of `database.table.column`, such as `shop.customers.email` or "
        "`*.*.password`. The last one that matches decides; after `!`, the column is read.",
    )
    mask_columns: dict[str, str] = Field(
        default_factory=dict,
        description="Columns of text that are masked, by such patterns, of which the last that matches decides: "
        "`{shop.customers.email: hash SHA-256}`. Masks are `asterisks 8`, `truncate 4`, `hash SHA-256` and `hash-v1 SHA-256`; "
        "`keep` leaves a column as it is.",
    )
    mask_salt: str | None = Field(
        default=None,
        repr=False,
        description="Salt of hashes, which `mask-columns` needs for them, such as `${MASK_SALT}`.",
    )
    snapshot_mode: str = Field(
        default="initial",
        alias="snapshot.mode",
        description="What a new pipeline begins with. `initial`: a first copy of the tables, then the log; `initial_only`: the "
        "first copy alone; `no_data`: the tables' definitions, then the log; `when_needed`: as `initial`, and another copy when "
        "the server's log no longer has what comes next, and of a table when a schema change gives its rows values that only the "
        "server has; `always`: as `when_needed`, and another copy at the start of each run; "
        "`recovery`: for a pipeline that has run: definitions that were changed outside of the log are taken from the server; "
        "`configuration_based`: by the next three options.",
    )
    snapshot_data: bool = Field(
        default=False,
        alias="snapshot.mode.configuration.based.snapshot.data",
        description="With `configuration_based`, whether a new pipeline copies the tables.",
    )
    start_stream: bool = Field(
        default=False,
        alias="snapshot.mode.configuration.based.start.stream",
        description="With `configuration_based`, whether the pipeline follows the log.",
    )
    snapshot_on_data_error: bool = Field(
        default=False,
        alias="snapshot.mode.configuration.based.snapshot.on.data.error",
        description="With `configuration_based`, whether the tables are copied again when the server's log no longer has what "
        "comes next.",
    )
    starting_position: str | None = Field(
        default=None,
        description="With `snapshot.mode: no_data`, where a new pipeline begins to read: `binlog.000003:154`, a file of the log "
        "and a position in it; or behind the transactions of a GTID set (MySQL) or position (MariaDB), as servers print "
        "them. Left out, at the end of the log.",
    )
    from_debezium: str | None = Field(
        default=None,
        description="With `snapshot.mode: no_data`, the offset of a Debezium connector, where a new event pipeline continues: "
        "the file `offsets.dat` of Kafka Connect, or the value of its record in the topic of offsets as JSON.",
    )
    server_id: int | None = Field(
        default=None,
        ge=1,
        le=2**32 - 1,
        description="The first of 100 server ids that connections to the log use; no replica may have one of them. Left out, "
        "each connection takes one at random from the upper half.",
    )
    ssl_mode: Literal["disabled", "preferred", "required", "verify_ca", "verify_identity"] = Field(
        default="preferred", description="TLS, as in `mysql --ssl-mode`."
    )
    ssl_ca: str | None = Field(default=None, description="File of trusted certificates, in PEM.")
    ssl_cert: str | None = Field(default=None, description="File of the client's certificate, in PEM.")
    ssl_key: str | None = Field(default=None, description="File of the client's private key, in PEM.")
    signal_table: str | None = Field(
        default=None,
        description="A table of the server whose new rows are signals, as Debezium's connectors read them: `execute-snapshot` "
        "copies tables again; an event pipeline sends their rows again. `database.table`, with columns for an id, a type and "
        "data.",
    )
    signal_topic: str | None = Field(
        default=None,
        description="A topic of Kafka whose new records are signals, as with the option `signal.kafka.topic` of Debezium's "
        "connectors; they mean the same as rows of a signal table.",
    )
    signal_servers: str | None = Field(default=None, description="Bootstrap servers of its cluster, `host:port,…`.")
    signal_key: str | None = Field(
        default=None, description="The key of the records that are meant for this pipeline. Left out, all are."
    )
    signal_properties: dict[str, str] = Field(
        default_factory=dict,
        description="Properties of librdkafka for this cluster, such as `security.protocol` and `sasl.password`.",
    )
    notification_topic: str | None = Field(
        default=None,
        description="The topic of an event pipeline's notifications of snapshots, as with the option "
        "`notification.sink.topic.name` of Debezium's connectors; with the sink's protocol `debezium-mysql`.",
    )
    chunk_rows: int = Field(
        default=50_000, ge=1, description="Number of rows that the first copy reads with one query, approximately."
    )
    max_bytes_per_batch: int = Field(
        default=64 * 2**20, ge=1, description="Maximum number of bytes of the log to read before a step is applied."
    )

    @field_validator("tables")
    @classmethod
    def _are_patterns(cls, value: list[str]) -> list[str]:
        try:
            TableFilter(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("exclude_columns")
    @classmethod
    def _are_column_patterns(cls, value: list[str]) -> list[str]:
        try:
            ColumnFilter(value)
        except ConfigError as error:
            raise ValueError(str(error)) from error
        return value

    @field_validator("mask_columns")
    @classmethod
    def _are_masks(cls, value: dict[str, str]) -> dict[str, str]:
        for pattern, mask in value.items():
            if pattern.startswith("!"):
                raise ValueError(f"{pattern!r}: write `keep` in place of `!`")
            try:
                ColumnFilter([pattern])
            except ConfigError as error:
                raise ValueError(str(error)) from error
            Mask.parse(mask, "")
        return value

    @field_validator("signal_table")
    @classmethod
    def _is_name(cls, value: str | None) -> str | None:
        if value is not None and not all(names_of(value)):
            raise ValueError("expected `database.table`")
        return value

    @field_validator("snapshot_mode")
    @classmethod
    def _is_mode(cls, value: str) -> str:
        if value in _OLD_MODES:
            raise ValueError(f"`{value}` is not supported: set it to `{_OLD_MODES[value]}`")
        if value not in _MODES:
            raise ValueError(f"expected {', '.join(_MODES)}")
        return value

    @field_validator("starting_position")
    @classmethod
    def _is_position(cls, value: str | None) -> str | None:
        if value is None or _POSITION.fullmatch(value) is not None:
            return value
        try:
            gtids = str(parse(value))
        except ValueError:
            gtids = ""
        if not gtids:
            raise ValueError("expected a file of the log and a position in it, such as binlog.000003:154, or GTIDs")
        return gtids

    @model_validator(mode="after")
    def _agrees(self) -> MySqlSource:
        if self.password is not None and self.password_file is not None:
            raise ValueError("give either `password` or `password-file`")
        is_by_options = self.snapshot_mode == "configuration_based"
        if not is_by_options and any((self.snapshot_data, self.start_stream, self.snapshot_on_data_error)):
            raise ValueError(
                "`snapshot.mode.configuration.based.…` needs `snapshot.mode: configuration_based`, and means nothing with "
                f"`{self.snapshot_mode}`"
            )
        if is_by_options and not (self.snapshot_data or self.start_stream):
            raise ValueError(
                "with `snapshot.mode: configuration_based`, set `snapshot.mode.configuration.based.snapshot.data`, "
                "`snapshot.mode.configuration.based.start.stream` or both to `true`: there is nothing to read otherwise"
            )
        if self.from_debezium is not None and (self.copies_first or self.starting_position is not None):
            raise ValueError("`from-debezium` needs `snapshot.mode: no_data`, and no `starting-position`")
        for option, value in (("signal-table", self.signal_table), ("signal-topic", self.signal_topic)):
            if value is not None and not self.follows_log:
                raise ValueError(
                    f"`{option}` needs another `snapshot.mode`: with `{self.snapshot_mode}` the log is not followed"
                )
        has_hashes = any(mask is not None and mask.is_hash for _, mask in self.column_patterns.masks)
        if has_hashes and not self.mask_salt:
            raise ValueError(
                "a hash of `mask-columns` needs `mask-salt`: without one, anybody can compare it with the hash of a guess"
            )
        if (self.signal_topic is None) != (self.signal_servers is None):
            raise ValueError("`signal-topic` and `signal-servers` go together")
        if self.starting_position is not None and self.copies_first:
            raise ValueError(
                "`starting-position` needs `snapshot.mode: no_data`: a first copy begins at the end of the log"
            )
        return self

    @classmethod
    def expanded(cls, written: dict[str, Any]) -> dict[str, Any]:
        """See `ChangesSection`."""
        return expanded(written) if written.get("type") == "mysql" and "uri" in written else written

    @classmethod
    def wrong(cls, written: Mapping[str, Any], *, of_events: bool) -> Iterator[tuple[str, str]]:
        """See `ChangesSection`: options that only the other kind of pipeline has."""
        if not of_events and written.get("notification-topic") is not None:
            yield (
                "notification-topic",
                "source.notification-topic: only an event pipeline writes notifications. Remove the option; `changefeed status` "
                "shows the progress of a copy",
            )
        if not of_events and written.get("from-debezium") is not None:
            yield (
                "from-debezium",
                "source.from-debezium: an event pipeline continues a connector, and one into tables does not. Remove the "
                "option, and set `snapshot.mode: initial` to copy the tables, or `starting-position` to read the log from "
                "the connector's file and position",
            )

    def leaves_out(self, table: str) -> bool:
        """See `ChangesSection`."""
        return not _table_filter(tuple(self.tables)).matches(*names_of(table))

    def excludes_column(self, database: str, table: str, column: str) -> bool:
        """See `ChangesSection`."""
        return self._compiled.excludes(database, table, column)

    def column_mask(self, database: str, table: str, column: str) -> Mask | None:
        """See `ChangesSection`."""
        return self._compiled.mask(database, table, column)

    @cached_property
    def _compiled(self) -> CompiledPatterns[Mask]:
        """The patterns of columns, compiled once: each schema change asks for each column."""
        return self.column_patterns.compiled()

    @property
    def column_patterns(self) -> ColumnPatterns:
        """The columns that are excluded or masked."""
        salt = self.mask_salt or ""
        masks = tuple((pattern, Mask.parse(text, salt)) for pattern, text in self.mask_columns.items())
        return ColumnPatterns(tuple(self.exclude_columns), masks)

    @property
    def has_all_rows(self) -> bool:
        """See `ChangesSection`."""
        return self.copies_first and not self.recovers

    @property
    def copies_first(self) -> bool:
        """Whether a new pipeline begins with a copy of the tables, and tables that are selected later, too."""
        return self.snapshot_data if self.snapshot_mode == "configuration_based" else self.snapshot_mode != "no_data"

    @property
    def follows_log(self) -> bool:
        """Whether the log is read behind the first copy."""
        return (
            self.start_stream if self.snapshot_mode == "configuration_based" else self.snapshot_mode != "initial_only"
        )

    @property
    def copies_lost_log(self) -> bool:
        """Whether the tables are copied again when the log does not have what comes next."""
        return self.snapshot_on_data_error or self.snapshot_mode in ("when_needed", "always")

    @property
    def recovers(self) -> bool:
        """Whether definitions that were changed outside of the log are taken from the server when a run begins."""
        return self.snapshot_mode == "recovery"

    @property
    def reads(self) -> str:
        """See `ChangesSection`."""
        return f"{', '.join(self.tables)} at {self.host}:{self.port}"

    @property
    def start(self) -> LogPosition | str | None:
        """The position or the GTIDs of `starting-position`; None if it is left out."""
        text = self.starting_position
        if text is None or _POSITION.fullmatch(text) is None:
            return text
        file, _, position = text.rpartition(":")
        return LogPosition(file, int(position))

    def read_password(self) -> str:
        """Returns the password; empty if the section has none.

        Raises:
            ConfigError: the file of `password-file` cannot be read.
        """
        if self.password_file is None:
            return self.password or ""
        try:
            lines = Path(self.password_file).read_text(encoding="utf-8").splitlines()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"source.password-file: {error}") from error
        return lines[0] if lines else ""


SECTION = MySqlSource
