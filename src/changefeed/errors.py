"""Every exception of changefeed. The type shows whose fault it is and whether to go on.

```
ChangefeedError
├── ConfigError            the user's file or command line; the message carries the fix
│   ├── MissingExtraError  a package that this feature needs is not installed
│   ├── AccessError        a server refuses the credentials, or this user has not the rights
│   └── NeedsSparkError    a command without Spark cannot reach it
├── ProtocolError          bytes that contradict their protocol; becomes a dead letter
│   ├── TruncatedError     the bytes end early
│   └── SchemaError        the bytes contradict the schema or shape that they name
├── UnsupportedError       well-formed, but changefeed has no representation for it
│   └── UnknownRowsError   a schema change leaves rows with values that only the server has
├── SourceError            reading from the source failed       (.transient: worth another try)
├── SinkError              writing to the sink failed           (.transient)
│   ├── FencedError        another writer has taken over this pipeline
│   └── DamagedError       a file in the log of a table is damaged
├── SchemaRegistryError    the schema registry refused or did not answer (.transient)
└── ResourceError          this machine lacks disk, memory or time (.transient)
```

The message alone must suffice to act on: Spark carries an exception from an executor to the driver as text only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

ACCESS = "Correct the credentials in the source section, or give this user the rights"
# A note on every transient error: Spark carries the notes of an executor's error, too.
TRANSIENT = "(transient)"


class ChangefeedError(Exception):
    """Base class of every exception that changefeed raises on purpose."""


class ConfigError(ChangefeedError):
    """The user's configuration, command line or argument cannot work as written; the message contains the fix."""


class MissingExtraError(ConfigError):
    """An optional dependency is not installed; the message has the pip command that adds it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs packages that are not installed: pip install 'changefeed[{extra}]'")


class AccessError(ConfigError):
    """A server refuses the credentials of the configuration, or their user has not the rights."""


class NeedsSparkError(ConfigError):
    """Only Spark reaches what a command without Spark needs."""


class ProtocolError(ChangefeedError):
    """Bytes that contradict their protocol.

    Attributes:
        reason: a stable code for machines, such as `truncated` or `bad-json`; it becomes the dead letter's reason.
        byte: offset of the contradiction in the record's key or value, or None.
        index: number of the message in the record, from 0, or None if the whole record is meant.
    """

    default_reason = "protocol"

    def __init__(
        self, message: str, *, reason: str | None = None, byte: int | None = None, index: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason = reason or self.default_reason
        self.byte = byte
        self.index = index


class TruncatedError(ProtocolError):
    """The bytes end before the announced length."""

    default_reason = "truncated"


class SchemaError(ProtocolError):
    """The bytes contradict the schema or the shape that they name."""

    default_reason = "schema"


class UnsupportedError(ChangefeedError):
    """Well-formed input that changefeed has no representation for."""


class UnknownRowsError(UnsupportedError):
    """A schema change leaves rows with values that only the server has, of a source that can copy tables again.

    Attributes:
        reason: the schema change, and what is not known.
        tables: database and name of each of these tables.
    """

    def __init__(self, reason: str, fix: str, tables: tuple[tuple[str, str], ...]) -> None:
        super().__init__(f"{reason}. {fix}")
        self.reason, self.tables = reason, tables


class _OutsideError(ChangefeedError):
    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        if transient:
            self.add_note(TRANSIENT)


class SourceError(_OutsideError):
    """Reading from the source failed. `transient`: whether another try may succeed."""


class SinkError(_OutsideError):
    """Writing to the sink failed. `transient`: whether another try may succeed."""


class FencedError(SinkError):
    """A newer run of the same pipeline has taken over. This run stops; it has written nothing since."""


class DamagedError(SinkError):
    """A file in the log of a table is damaged: no reader can tell which rows the table had."""


class SchemaRegistryError(_OutsideError):
    """The schema registry refused a request, or did not answer. `transient`: whether another try may succeed."""


class ResourceError(_OutsideError):
    """This machine lacks disk space, memory or time. `transient`: whether another try may succeed."""


def unknown_name(what: str, name: str, known: Iterable[str], meant: Mapping[str, str] | None = None) -> ConfigError:
    """Returns the error for an unknown name. It shows the nearest known name, or the one in `meant`, then all known names."""
    names = sorted(known)
    near = [meant[name]] if meant and name in meant else difflib.get_close_matches(name, names, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    return ConfigError(f'unknown {what} "{name}".{hint} Known: {", ".join(names)}')
