"""Ids of schemas to write: the id with which a schema was read, if it is still valid, else the id of a new registration."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache

from changefeed.errors import ProtocolError, SchemaRegistryError

_KEPT = 4096
GetSchema = Callable[[int], str]  # id -> text; `protocols.base.Stores` has both
RegisterSchema = Callable[[str, str], int]  # subject, text -> id


class SchemaIds:
    """Looks up or registers the ids of schemas, and caches them."""

    def __init__(self, get: GetSchema, register: RegisterSchema) -> None:
        self._get, self._register = get, register
        self.id = lru_cache(_KEPT)(self._id)

    def _id(self, subject: str, text: str, known: int | None) -> int:
        """Returns the id of a schema.

        Args:
            subject: the subject for registering a schema without a known id.
            text: the schema.
            known: the id with which it was read, perhaps from another schema registry; None if it was not read.

        Raises:
            SchemaRegistryError: the schema registry refuses the schema or cannot be reached.
        """
        try:
            if known is not None and self._get(known) == text:
                return known
        except (LookupError, ProtocolError):
            pass  # the schema was read from another schema registry
        except SchemaRegistryError as error:
            if error.transient:
                raise
            # a file that does not exist yet, or an error that `register` raises too
        return self._register(subject, text)
