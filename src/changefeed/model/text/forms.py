"""The keys of every kind of line, as msgspec reads them, and the error messages for invalid lines.

`origin` and `wire` are kept as text, so that they are written unchanged. msgspec refuses lone surrogates, which the
canonical text uses for bytes that are not UTF-8: only such lines are read by `json`.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable
from typing import Annotated, Any, Literal

import msgspec

from changefeed.errors import SchemaError
from changefeed.model.table import canonical

NOTHING = msgspec.Raw(b"null")
_Natural = Annotated[int, msgspec.Meta(ge=0)]


class _Form(msgspec.Struct, tag_field="kind", forbid_unknown_fields=True, kw_only=True, gc=False):
    pass


class ColumnForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """A column of a shape or of a schema change."""

    name: str
    type: str
    nullable: bool | None = None
    key: bool | None = None
    default: str | None = None


class TransactionForm(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The known facts of a row's transaction."""

    id: str | None = None
    order: int | None = None
    table_order: int | None = None


class ShapeForm(_Form, tag="shape"):
    """A table as records describe it."""

    shape: str
    database: str
    table: str
    columns: list[ColumnForm]
    wire: msgspec.Raw = NOTHING


class RowForm(_Form, tag="row"):
    """A row change, as a line of `decode --json`."""

    op: Literal["insert", "update", "delete", "read", "upsert"]
    database: str
    table: str
    shape: str | None = None
    keys: list[str] = []
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    commit_ts: _Natural | None = None
    commit_time: str | None = None
    transaction: TransactionForm | None = None
    origin: msgspec.Raw = NOTHING
    position: str | None = None
    irregular: dict[str, str] = {}


class SchemaForm(_Form, tag="schema"):
    """A schema change, as a line of `decode --json`."""

    type: str
    database: str | None = None
    table: str | None = None
    ddl: str | None = None
    columns: list[ColumnForm] | None = None
    commit_ts: _Natural | None = None
    commit_time: str | None = None
    origin: dict[str, Any] | None = None
    position: str | None = None


class ResolvedForm(_Form, tag="resolved"):
    """A resolved event, as a line of `decode --json`."""

    commit_ts: _Natural
    commit_time: str | None = None
    partition: _Natural | None = None
    position: str | None = None
    origin: dict[str, Any] | None = None


class TransactionMarkForm(_Form, tag="transaction"):
    """The begin or end of a transaction."""

    status: Literal["begin", "end"]
    id: str
    event_count: int | None = None
    tables: dict[str, int] | None = None
    commit_time: str | None = None
    position: str | None = None
    origin: dict[str, Any] | None = None


class HeartbeatForm(_Form, tag="heartbeat"):
    """A heartbeat, as a line of `decode --json`."""

    commit_time: str | None = None
    position: str | None = None
    origin: dict[str, Any] | None = None


class DeadLetterForm(_Form, tag="dead_letter"):
    """A record that could not be decoded."""

    reason: str
    error: str
    protocol: str
    position: str | None = None
    byte: int | None = None
    index: _Natural | None = None
    schema_id: int | str | None = None
    sha256: str | None = None
    key: bytes | None = None
    value: bytes | None = None
    headers: list[tuple[str, bytes | None]] = []


ControlForm = SchemaForm | ResolvedForm | TransactionMarkForm | HeartbeatForm
EventForm = RowForm | ControlForm | DeadLetterForm
AnyForm = ShapeForm | EventForm
_FORMS: dict[str, type[_Form]] = {
    str(form.__struct_config__.tag): form
    for form in (ShapeForm, RowForm, SchemaForm, ResolvedForm, TransactionMarkForm, HeartbeatForm, DeadLetterForm)
}
_NESTED: dict[str, type[msgspec.Struct]] = {"columns": ColumnForm, "transaction": TransactionForm}
_UNKNOWN_KEY = re.compile(r"Object contains unknown field `(.*?)`(?: - at `\$\.(\w+)[^`]*`)?$", re.DOTALL)
_decode: Callable[[str | bytes], AnyForm] = msgspec.json.Decoder(AnyForm).decode


class LinePlace:
    """The name of a text and the number of a line: error messages begin with them."""

    __slots__ = ("name", "number")

    def __init__(self, name: str, number: int = 0) -> None:
        self.name = name
        self.number = number

    def error(self, message: str, path: str | None = None, *, number: int | None = None) -> SchemaError:
        """Returns the error for this line, or for line `number`; `path` is the place in it, such as `$.after.qty`."""
        at = "" if path is None else f" - at `{path}`"
        return SchemaError(f"{self.name}:{number or self.number}: {message}{at}")


def raw_text(raw: msgspec.Raw, place: LinePlace, path: str, number: int | None = None) -> str:
    """Returns the text of `origin` or `wire`, which msgspec has not parsed.

    Raises:
        SchemaError: the text is not UTF-8.
    """
    try:
        return bytes(raw).decode()
    except UnicodeDecodeError as error:
        raise place.error(f"not a line of JSON: {error}", path, number=number) from error


def read_form(line: str | bytes, place: LinePlace) -> AnyForm:
    """Parses a line, and checks its keys and their types.

    Raises:
        SchemaError: the line is not a JSON object, or not an event; the message shows the place.
    """
    try:
        return _decode(line)
    except msgspec.ValidationError as error:
        raise place.error(_explain(str(error), line)) from error
    except (msgspec.DecodeError, UnicodeError) as error:
        value = _read_surrogates(line, place)
        if value is None:
            raise place.error(f"not a line of JSON: {error}") from error
        return value
    except RecursionError as error:
        raise place.error("the JSON is nested too deeply") from error


def _read_surrogates(line: str | bytes, place: LinePlace) -> AnyForm | None:
    text = line if isinstance(line, str) else line.decode("utf-8", "replace")
    if "\\ud" not in text.lower():
        return None
    try:
        value = json.loads(line)
        raw = {"origin", "wire"} if value.get("kind") in ("row", "shape") else set()
        for key in raw & value.keys():
            value[key] = msgspec.Raw(canonical(value[key]).encode())
        form: AnyForm = msgspec.convert(value, AnyForm)
        return form
    except msgspec.ValidationError as error:
        raise place.error(_explain(str(error), line)) from error
    except (ValueError, AttributeError, RecursionError):
        return None


def _explain(message: str, line: str | bytes) -> str:
    """Completes msgspec's message: if a key or kind is unknown, adds the nearest known name."""
    if message.startswith("Invalid value") and message.endswith("`$.kind`"):
        return f"{message}. Known kinds: {', '.join(_FORMS)}"
    unknown = _UNKNOWN_KEY.match(message)
    if unknown is None:
        return message
    form = _NESTED.get(unknown[2]) or _form(line)
    if form is None:
        return message
    known = [f.encode_name for f in msgspec.structs.fields(form)]
    near = difflib.get_close_matches(unknown[1], known, n=1)
    hint = f"did you mean `{near[0]}`?" if near else f"known: {', '.join(known)}"
    return f"{message}; {hint}"


def _form(line: str | bytes) -> type[_Form] | None:
    try:
        return _FORMS.get(json.loads(line)["kind"])
    except (ValueError, RecursionError):  # what `json` refuses and msgspec does not
        return None
