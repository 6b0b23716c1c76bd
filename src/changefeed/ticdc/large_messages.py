"""What TiCDC's codecs check of their limits, and of how they handle messages that are too large."""

from __future__ import annotations

from changefeed.errors import ConfigError
from changefeed.wire.compression import COMPRESSIONS

HANDLED = ("none", "handle-key-only", "claim-check")


def check_limits(options: object, *names: str) -> None:
    """Refuses limits that are not above 0; `names` are attributes of the options.

    Raises:
        ConfigError: one is not.
    """
    for name in names:
        if (value := getattr(options, name)) <= 0:
            raise ConfigError(f"invalid {name.replace('_', '-')} {value}")


def check_compression(compression: str) -> None:
    """Refuses a large-message-handle-compression that is not known.

    Raises:
        ConfigError: it is not.
    """
    if compression not in COMPRESSIONS:
        raise ConfigError(
            f"large message handle compression is not supported, got {compression}; known: {', '.join(COMPRESSIONS)}"
        )


def check_handling(option: str) -> None:
    """Refuses a large-message-handle-option that is not known.

    Raises:
        ConfigError: it is not.
    """
    if option not in HANDLED:
        raise ConfigError(f"unknown large-message-handle-option {option}; known: {', '.join(HANDLED)}")


def check_storage(option: str, uri: str | None) -> None:
    """Refuses claim checks without a place for their files.

    Raises:
        ConfigError: there is none.
    """
    if option == "claim-check" and not uri:
        raise ConfigError("large-message-handle-option is set to claim-check, but the claim-check-storage-uri is empty")
