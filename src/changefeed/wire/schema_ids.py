"""The ids of schemas that are written: the id with which a schema was read where that still names it, else a registered one."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from changefeed.errors import ProtocolError, SchemaRegistryError

_KEPT = 4096
GetSchema = Callable[[int], str]  # id -> text; `protocols.base.Stores` has both
RegisterSchema = Callable[[str, str], int]  # subject, text -> id


class SchemaIds:
    """Finds the ids of schemas, and remembers them."""

    def __init__(self, get: GetSchema, register: RegisterSchema) -> None:
        self._get, self._register = get, register
        self.id = lru_cache(_KEPT)(self._id)

    def _id(self, subject: str, text: str, known: int | None) -> int:
        """The id of a schema.

        Args:
            subject: where a schema without a known id is registered.
            text: of the schema.
            known: the id with which it was read, perhaps from another schema registry; None if it was not read.

        Raises:
            SchemaRegistryError: the schema registry refuses the schema or cannot be asked.
        """
        try:
            if known is not None and self._get(known) == text:
                return known
        except (LookupError, ProtocolError):
            pass  # another schema registry than the one that the schema was read from
        except SchemaRegistryError as error:
            if error.transient:
                raise
            # a file that is to be written, or the same error that `register` raises
        return self._register(subject, text)
