"""Checks of TiCDC's size limits and of its options for messages that are too large."""

from __future__ import annotations

from changefeed.errors import ConfigError
from changefeed.wire.compression import COMPRESSIONS

HANDLED = ("none", "handle-key-only", "claim-check")


def check_limits(options: object, *names: str) -> None:
    """Checks that limits are above 0; `names` are attributes of the options.

    Raises:
        ConfigError: a limit is 0 or less.
    """
    for name in names:
        if (value := getattr(options, name)) <= 0:
            raise ConfigError(f"invalid {name.replace('_', '-')} {value}")


def check_compression(compression: str) -> None:
    """Checks the value of `large-message-handle-compression`.

    Raises:
        ConfigError: the compression is unknown.
    """
    if compression not in COMPRESSIONS:
        raise ConfigError(
            f"large message handle compression is not supported, got {compression}; known: {', '.join(COMPRESSIONS)}"
        )


def check_handling(option: str) -> None:
    """Checks the value of `large-message-handle-option`.

    Raises:
        ConfigError: the value is unknown.
    """
    if option not in HANDLED:
        raise ConfigError(f"unknown large-message-handle-option {option}; known: {', '.join(HANDLED)}")


def check_storage(option: str, uri: str | None) -> None:
    """Checks that claim checks have a storage for their files.

    Raises:
        ConfigError: the option is `claim-check`, but `claim-check-storage-uri` is empty.
    """
    if option == "claim-check" and not uri:
        raise ConfigError("large-message-handle-option is set to claim-check, but the claim-check-storage-uri is empty")
