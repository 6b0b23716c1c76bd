"""Every exception of changefeed. The type says whose fault it is and whether going on makes sense.

```
ChangefeedError
├── ConfigError            the user's file or command line; the message carries the fix
│   └── MissingExtraError  a package that this feature needs is not installed
├── ProtocolError          bytes that are not what the protocol says; becomes a dead letter
│   ├── TruncatedError     they end early
│   └── SchemaError        they contradict the schema or shape they name
├── UnsupportedError       well-formed, but nothing here can carry it
├── SourceError            the outside we read from            (.transient: worth another try)
├── SinkError              the outside we write to             (.transient)
│   └── FencedError        another writer has taken this pipeline over
├── SchemaRegistryError    the schema registry said no, or nothing (.transient)
└── ResourceError          this machine lacks something: disk, memory, time (.transient)
```

A message alone suffices to act on: Spark carries an exception from an executor to the driver as text only.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping

# A note to every error that another try may get over: of an error from an executor, Spark carries its notes too.
TRANSIENT = "(transient)"


class ChangefeedError(Exception):
    """Base of all the exceptions that changefeed raises on purpose."""


class ConfigError(ChangefeedError):
    """The user's configuration cannot work as written."""


class MissingExtraError(ConfigError):
    """An optional dependency is absent; the message is the pip command that adds it."""

    def __init__(self, feature: str, extra: str) -> None:
        super().__init__(f"{feature} needs packages that are not installed: pip install 'changefeed[{extra}]'")


class ProtocolError(ChangefeedError):
    """Bytes that contradict their protocol.

    Attributes:
        reason: a stable code for machines, as `truncated` or `bad-json`; it becomes the dead letter's reason.
        byte: offset into the record's key or value where the contradiction was seen, or None.
        index: which message of the record, from 0, or None when it is the record as a whole.
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
    """The bytes end before what they announce."""

    default_reason = "truncated"


class SchemaError(ProtocolError):
    """The bytes contradict the schema or the shape that they name."""

    default_reason = "schema"


class UnsupportedError(ChangefeedError):
    """Well-formed input that nothing here can carry."""


class _OutsideError(ChangefeedError):
    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient
        if transient:
            self.add_note(TRANSIENT)


class SourceError(_OutsideError):
    """Reading failed. `transient` says whether another try may work."""


class SinkError(_OutsideError):
    """Writing failed. `transient` says whether another try may work."""


class FencedError(SinkError):
    """A newer epoch of this pipeline exists; this writer must stop and has written nothing since."""


class SchemaRegistryError(_OutsideError):
    """The schema registry refused, or could not be reached."""


class ResourceError(_OutsideError):
    """This machine lacks something: disk, memory, or time. `transient` says whether another try may work."""


def unknown_name(what: str, name: str, known: Iterable[str], meant: Mapping[str, str] | None = None) -> ConfigError:
    """The error for a name nobody knows: it shows the nearest known one, or what `meant` says of it, then all of them."""
    names = sorted(known)
    near = [meant[name]] if meant and name in meant else difflib.get_close_matches(name, names, n=1)
    hint = f' Did you mean "{near[0]}"?' if near else ""
    return ConfigError(f'unknown {what} "{name}".{hint} Known: {", ".join(names)}')
