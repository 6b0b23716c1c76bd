"""Generates the pages under docs/reference from the code: `pages()` returns their texts.

Only the sentence at the top of each page and the meanings of the reasons of dead letters are written by hand here.
"""

from __future__ import annotations

import ast
import inspect
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, cast

import click
import msgspec
from pydantic import TypeAdapter

import changefeed
from changefeed import errors
from changefeed.cli import COMMANDS, failure
from changefeed.frames.types import sink_type
from changefeed.model.types import BINARIES, GEOMETRIES, INTEGERS, TEXTS, ColumnType
from changefeed.pipeline.config.definition import Definition
from changefeed.pipeline.config.events import EventDefinition
from changefeed.pipeline.monitoring.metrics import BY_TABLE, METRICS, Metric
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import Protocol
from changefeed.protocols.by_columns import ColumnEncoder
from changefeed.protocols.loss import fewest
from changefeed.sinks.iceberg.schema import type_name
from changefeed.sinks.iceberg.types import iceberg_type
from tools import loss_page
from tools.markdown import table as _table

SOURCE = Path(__file__).resolve().parent.parent / "src" / "changefeed"
MADE = "<!-- Made by tools/check_docs.py --write; do not edit. -->\n\n"

# Reason -> its meaning, and what helps; a protocol lists the reasons that only it uses.
REASONS = {
    "bad-compression": "A compressed value does not inflate. Is `large-message-handle-compression` right?",
    "bad-json": "A message is not JSON, or not strict JSON. Is the protocol right?",
    "bad-length": "The length before a message or a value is negative, or differs from the length of what follows. Is the protocol right?",
    "bad-magic": "The record does not begin as Confluent's wire format does. Is the protocol right?",
    "bad-protobuf": "The bytes are not Protocol Buffers, or not these messages. Is the protocol right?",
    "bad-schema": "The schema with the record's schema id is not a schema of this protocol, or exceeds a limit.",
    "bad-utf8": "A text in the record is not UTF-8.",
    "bad-varint": "An integer does not have its shortest form, or has too many bits. Is the schema registry the right one?",
    "claim-check": "The row is in a file that is missing or too large, or `claim-check-storage-uri` is not set.",
    "defect": "changefeed failed at this record, which is a defect: the error has the trace. Other records are decoded. Please report it, with the output of `changefeed dlq show` for the record; a corrected version can replay it.",
    "handle-key-only": "The row was too large for the producer, which sent only its key. Raise its `max-message-bytes`, or let it use `claim-check`.",
    "incomplete-group": "An event spans several records, and some are missing: the log begins or ends within the event, a record is lost, or one of its entries is a dead letter. Read the records again from the first one.",
    "protocol": "The record violates the protocol in a way without its own reason; the error describes it.",
    "schema": "A message violates the protocol's rules for its members, or a value does not have its column's type.",
    "too-large": "A value has more than `max-inflated-bytes` when inflated, a group of records more than `max_group_bytes`, or a record exceeds another limit.",
    "trailing-bytes": "The record has bytes after its last message.",
    "truncated": "The record ends early.",
    "unknown-kind": "A message has a kind that its protocol does not define, or is from another connector.",
    "unknown-schema": "The schema registry does not contain the record's schema id. Is it the one that the producer uses?",
    "unknown-type": "A column has an unknown type, or an unknown type code.",
    "version": "The record's version is not 1. Is the protocol right?",
}
BINLOG = SOURCE / "mysql" / "binlog"  # an error there stops its reader: events have no dead letters
NO_LETTER = {"dead-letters"}  # reasons of errors about dead letters, which no dead letter has


def protocols() -> str:
    """Returns the table of protocols: the language of decoder and encoder, and what cuts require."""
    rows = []
    for name in PROTOCOLS:
        known = protocol(name)
        reads = "Rust" if known.kernel is not None else "Python"
        writes = "Rust" if issubclass(cast(type, known.encoder), ColumnEncoder) else "Python"
        folder = f"src/changefeed/protocols/{name.replace('-', '_')}"
        rows.append((f"[`{name}`]({folder}/README.md): {known.title}", reads, writes, _cut(known)))
    return _table(("protocol", "decode", "encode", "into tables, cut by"), rows)


def ticdc() -> str:
    """Returns the table of TiCDC's protocols: the name in a sink URI, the name here, and what to set for cuts."""
    known = [protocol(name) for name in PROTOCOLS]
    rows = [
        (
            f"`{p.ticdc_names[0]}`",
            f"`{p.name}`",
            " and ".join(f"`{o}={v}`" for o, v in _for_cuts(p).items()) or "nothing",
        )
        for p in known
        if p.ticdc_names
    ]
    return _table(("`protocol=`", "in a pipeline", "set in the sink URI, so that all tables can move together"), rows)


def _cut(known: Protocol) -> str:
    """Returns what the cuts of a protocol require, with the necessary options."""
    key = known.capabilities.cut_key
    if key is None:
        return "nothing: `consistency: key` alone"
    names = {"resolved": "resolved events", "checkpoint": "checkpoints", "transaction-mark": "whole transactions"}
    options = " and ".join(f"`{n}`" if v == "true" else f"`{n}={v}`" for n, v in _for_cuts(known).items())
    return f"{names[key]}, with {options}" if options else names[key]


def _for_cuts(known: Protocol) -> Mapping[str, str]:
    """Returns the fewest options with which a protocol carries what its cuts require."""

    def has(values: Mapping[str, str]) -> bool:
        return known.capabilities.cut_key in known.capabilities_of(known.read_options(values)).carries

    return {} if has({}) else fewest(next(variant for variant in known.variants if has(variant)), has)


def option_pages() -> str:
    """Returns the table of contents of the options' pages."""
    titles = [(name, protocol(name).title.partition(",")[0]) for name in PROTOCOLS]
    rows = [
        (f"[{title}](reference/options-{name}.md)", f"options of `{name}`, with the producer's names")
        for name, title in titles
    ]
    return _table(("page", "for"), rows)


# Tables in pages that are written by hand.
def _metrics(shown: Iterable[Metric]) -> str:
    rows = [f"| `{metric.shown}` | {metric.help} |" for metric in shown]
    return "\n".join(["| metric | meaning |", "|---|---|", *rows]) + "\n"


TABLES: dict[str, Callable[[], str]] = {
    "metrics": lambda: _metrics(METRICS),
    "tablemetrics": lambda: _metrics(BY_TABLE),
    "protocols": protocols,
    "options": option_pages,
    "ticdc": ticdc,
}


def pages() -> dict[str, str]:
    """Returns file name under docs/reference -> text."""
    schema = Definition.model_json_schema(by_alias=True)
    made = {
        "cli.md": cli(),
        "api.md": api(),
        "pipeline.md": pipeline(schema, EventDefinition.model_json_schema(by_alias=True)),
        "errors.md": error_page(),
        "types.md": types(),
        "loss.md": loss_page.text(),
    }
    made |= {f"options-{name}.md": options(name) for name in PROTOCOLS}
    made = {name: MADE + text for name, text in made.items()}
    of_all = TypeAdapter(Definition | EventDefinition).json_schema(by_alias=True)
    return made | {"pipeline.schema.json": json.dumps(of_all, indent=2, ensure_ascii=False) + "\n"}


def api() -> str:
    """Returns the page of the public Python names, by subject; the site has their whole docstrings."""
    listed = (SOURCE / "__init__.py").read_text(encoding="utf-8").partition("__all__ = [")[2].partition("]")[0]
    parts = [
        "# Python API",
        "The public names of `import changefeed as cf`. `help(cf)` is a tutorial, `help(cf.read)` describes a name, and the guide "
        "[Python](../guides/python.md) shows them in use. Any other name may change in a new version.",
    ]
    for subject, names in re.findall(r"# (.+)\n((?: +\".*\n)+)", listed):
        chosen = [name for name in re.findall(r'"(\w+)"', names) if name != "__version__"]
        rows = [(f"`{name}`", _first_line(getattr(changefeed, name))) for name in chosen]
        parts += [f"## {subject.capitalize()}", _table(("name", ""), rows)]
        parts.append(f"<!-- site: {' '.join(f'changefeed.{name}' for name in chosen)} -->")
    return "\n\n".join(part.strip("\n") for part in parts) + "\n"


def _first_line(value: Any) -> str:
    return (inspect.getdoc(value) or "").partition("\n")[0]


def commands() -> Iterator[tuple[str, click.Command]]:
    """Yields every command with its full name, including those of groups."""
    for name, place in sorted(COMMANDS.items()):
        module, _, attribute = place.partition(":")
        yield from _flat(name, getattr(import_module(module), attribute))


def _flat(name: str, command: click.Command) -> Iterator[tuple[str, click.Command]]:
    if isinstance(command, click.Group):
        for inner, subcommand in sorted(command.commands.items()):
            yield from _flat(f"{name} {inner}", subcommand)
    else:
        yield name, command


def cli() -> str:
    """Returns the page of commands, their arguments and options, and exit codes."""
    parts = ["# Command line\n\nResults are printed to stdout; errors, notes and progress to stderr.\n"]
    for name, command in commands():
        usage = " ".join(["changefeed", name, *command.collect_usage_pieces(click.Context(command))])
        about = "\n\n".join(map(_paragraph, _paragraphs(command)))
        rows = [
            (_flags(p), (p.help or "").rstrip("."), _default(p)) for p in command.params if isinstance(p, click.Option)
        ]
        parts.append(f"## {name}\n\n```\n{usage}\n```\n\n{about}\n\n{_table(('option', 'meaning', 'default'), rows)}")
    codes = inspect.cleandoc(failure.__doc__ or "").split("\n\n", 1)[1]
    rows_of_codes = [tuple(line.split(None, 1)) for line in codes.splitlines()]
    parts.append(f"## Exit codes\n\n{_table(('code', 'meaning'), rows_of_codes)}")
    return "\n".join(parts)


def _paragraphs(command: click.Command) -> list[str]:
    return [p for text in (command.help, command.epilog) if text for p in inspect.cleandoc(text).split("\n\n")]


def _paragraph(text: str) -> str:
    """Formats a paragraph of a help text; one that begins with a backspace line has a title and verbatim examples."""
    if not text.startswith("\b\n"):
        return text
    title, _, lines = text.removeprefix("\b\n").partition("\n")
    return f"{title}\n\n```sh\n{inspect.cleandoc(lines)}\n```"


def _flags(option: click.Option) -> str:
    flags = ", ".join(f"`{flag}`" for flag in (*option.opts, *option.secondary_opts))
    return flags if option.is_flag else f"{flags} {option.make_metavar(click.Context(click.Command('x')))}"


def _default(option: click.Option) -> str:
    if option.required:
        return "required"
    if option.secondary_opts:
        return f"`{(option.opts if option.default else option.secondary_opts)[0]}`"
    if option.is_flag or option.multiple or not isinstance(option.default, (str, int, float)):
        return ""
    return f"`{option.default}`"


def options(name: str) -> str:
    """Returns the page of one protocol's options, with the producer's names."""
    known, described = protocol(name), _options(name)
    rows = [
        (f"`{n}`", _described(p)["description"], _kind(p), _literal(p.get("default"))) for n, p in described.items()
    ]
    return (
        f"# Options of {name}\n\n{known.title}. On the command line `-o {next(iter(described))}=…`, in a pipeline "
        f"`protocol: {{name: {name}, {next(iter(described))}: …}}`. How the bytes are read and written: "
        f"[README of the protocol](../../src/changefeed/protocols/{name.replace('-', '_')}/README.md).\n\n"
        + _table(("option", "meaning", "value", "default"), rows)
    )


def defaults(name: str) -> dict[str, str]:
    """Returns option of a protocol -> its default, as the page of options shows it."""
    return {option: _literal(described.get("default")) for option, described in _options(name).items()}


def _options(name: str) -> dict[str, Any]:
    known = protocol(name).options
    properties: dict[str, Any] = msgspec.json.schema(known)["$defs"][known.__name__]["properties"]
    return properties


def pipeline(schema: dict[str, Any], of_events: dict[str, Any]) -> str:
    """Returns the page of the sections of a pipeline's definition; `of_events`: the schema of an event pipeline."""
    models = {**of_events["$defs"], **schema["$defs"]}
    parts = [
        "# Pipeline definition\n\n"
        "A YAML file with the sections `source`, `sink`, `pipeline`, `storage` and `spark`, and perhaps `ledger`. `${NAME}` in a value is taken from "
        "the environment; relative paths are taken from the file's folder; an unknown name is an error. Editors can "
        "check it with [pipeline.schema.json](pipeline.schema.json).\n"
    ]
    titles = {
        "FilesSource": "source: {type: files}",
        "KafkaSource": "source: {type: kafka}",
        "UriSource": "source: {uri: kafka://…}",
        "MySqlSource": "source: {type: mysql}",
        "ServerUriSource": "source: {type: mysql, uri: mysql://…}",
        "DeltaSink": "sink: {type: delta}",
        "IcebergSink": "sink: {type: iceberg}",
        "Behaviour": "pipeline",
        "KafkaSink": "sink: {type: kafka}, of an event pipeline",
        "FilesSink": "sink: {type: files}, of an event pipeline",
        "EventBehaviour": "pipeline, of an event pipeline",
        "StorageSection": "storage",
        "ProtocolChoice": "protocol",
        "Own": "type: my_package.my_module",
    }
    also = {
        "KafkaSource": "\nAny name that begins with `kafka.` is a property of the Kafka client, passed on unchanged.\n",
        "ProtocolChoice": "\nAll other names are the protocol's own options.\n",
    }
    for model in [*titles, *sorted(set(models) - set(titles))]:
        about = models[model]["description"]
        fields = _fields(models[model]) if models[model]["properties"].keys() != {"type"} else ""
        title = f"`{titles[model]}`" if ":" in titles.get(model, "") else titles.get(model, model)
        parts.append(f"## {title}\n\n{about}\n\n{fields}{also.get(model, '')}")
    parts.append(f"## spark\n\n{schema['properties']['spark']['description']}\n")
    return "\n".join(parts)


def _fields(model: dict[str, Any]) -> str:
    required = set(model.get("required", ()))
    rows = []
    for name, field in model["properties"].items():
        if name == "type":
            continue
        default = "required" if name in required else _literal(field.get("default"))
        rows.append((f"`{name}`", field.get("description", ""), _kind(field), default))
    return _table(("name", "meaning", "value", "default"), rows)


def _described(field: dict[str, Any]) -> dict[str, Any]:
    """Returns the part of a field's schema that contains its description: for `X | None`, that of X."""
    return next((f for f in (field, *field.get("anyOf", ())) if "description" in f), {"description": ""})


def _kind(field: dict[str, Any]) -> str:
    if "enum" in field or "const" in field:
        return ", ".join(f"`{v}`" for v in field.get("enum", [field.get("const")]))
    if "anyOf" in field:
        return " or ".join(_kind(f) for f in field["anyOf"] if f.get("type") != "null")
    if "$ref" in field:
        return "object"
    if field["type"] == "array":
        inner = field.get("items")
        return f"list of {_kind(inner)}" if inner else "list"
    return str({"string": "text", "boolean": "`true`, `false`"}.get(field["type"], field["type"]))


def _literal(value: Any) -> str:
    return "" if value is None or value == [] else f"`{json.dumps(value, ensure_ascii=False).strip(chr(34))}`"


def error_page() -> str:
    """Returns the page of the error tree and the reasons of dead letters."""
    text = inspect.cleandoc(errors.__doc__ or "")
    rows = [(f"`{reason}`", meaning) for reason, meaning in sorted(reasons().items())]
    return (
        f"# Errors\n\n{text}\n\n## Reasons of dead letters\n\n"
        "What to do with them: [recovery](../guides/recovery.md#dead-letters).\n\n"
        + _table(("reason", "meaning"), rows)
    )


def reasons() -> dict[str, str]:
    """Returns reason of a dead letter -> meaning."""
    return REASONS | {reason: text for name in PROTOCOLS for reason, text in protocol(name).reasons.items()}


def reasons_in_code() -> set[str]:
    """Returns all reasons that the code gives to a `ProtocolError` or a `DeadLetter`."""
    used: set[str] = set()
    for path in SOURCE.rglob("*.py"):
        if BINLOG in path.parents:
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.keyword) and node.arg == "reason" and isinstance(node.value, ast.Constant):
                used.add(str(node.value.value))
            if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "default_reason":
                used.add(str(ast.literal_eval(node.value)))
    return used - NO_LETTER


def types() -> str:
    """Returns the page of the sinks' type map."""
    rows = []
    for text in _examples():
        upstream = ColumnType.parse(text)
        sink = sink_type(upstream)
        iceberg = type_name(iceberg_type(upstream).arrow)
        lossy = (sink.lossy or "").capitalize()
        rows.append((f"`{text}`", f"`{upstream.arrow}`", f"`{sink.sql}`", f"`{iceberg}`", lossy))
    return (
        "# Types\n\nThe type of a MySQL column in memory (Arrow, lossless), in a Delta table (Spark's types), and in an Iceberg table. "
        "`explain` shows it for the tables of a pipeline. A table's types come from its DDL if the log contains it; "
        "else they are inferred from its rows, and widened if later rows need it.\n\n"
        + _table(("MySQL", "Arrow", "Delta", "Iceberg", "not kept"), rows)
    )


def _examples() -> Iterable[str]:
    yield from (name + sign for name in INTEGERS for sign in ("", " unsigned"))
    yield from ("year", "bit(10)", "bit(64)", "float", "double", "decimal(12,2)", "decimal(65,30)", "decimal")
    yield from ("date", "datetime(3)", "timestamp(6)", "time(3)", "char(10)", "varchar(40)")
    yield from sorted(TEXTS - {"char", "varchar"})
    yield from ("binary(4)", "varbinary(40)", *sorted(BINARIES - {"binary", "varbinary"}))
    yield from (
        "json",
        "enum('a','b')",
        "set('a','b')",
        "enum",
        "set",
        *sorted(GEOMETRIES),
        "vector(3)",
        "boolean",
        "null",
    )
