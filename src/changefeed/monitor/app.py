"""The application: addresses, and for each the view and the template that answer it.

/                                            /overview.json
/pipelines/{id}                              /pipelines/{id}.json            ?before=STEP
/pipelines/{id}/tables                       /pipelines/{id}/tables.json     ?page= ?search=
/pipelines/{id}/table                        /pipelines/{id}/table.json      ?name=
/pipelines/{id}/row                          /pipelines/{id}/row.json        ?name= ?key=, for each column of the key
/pipelines/{id}/letters                      /pipelines/{id}/letters.json    ?page= ?replayed=yes
/pipelines/{id}/letter                       /pipelines/{id}/letter.json     ?position=
/pipelines/{id}/definition                   /pipelines/{id}/definition.json
/login, /pipelines/{id}/replay               forms, see `security.py`
"""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib import resources
from typing import Any
from urllib.parse import parse_qs, quote

import jinja2
from starlette.applications import Starlette
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.base import BaseHTTPMiddleware
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, RedirectResponse, Response
from starlette.routing import Route

from changefeed import __version__
from changefeed.errors import ChangefeedError
from changefeed.monitor import row_view, views
from changefeed.monitor.charts import Chart, chart, number
from changefeed.monitor.dumps import dump
from changefeed.monitor.finding import FoundPipeline, find
from changefeed.monitor.reading import PipelineReader
from changefeed.monitor.replaying import replay
from changefeed.monitor.security import COOKIE, Access, guarded
from changefeed.redaction import redact

_SEARCH_AGAIN = 60.0  # seconds
_SAME_GLANCE = 1.0  # seconds for which the overview is shown to all who ask
_AT_ONCE = 8
_FORM_BYTES = 8_192


@dataclass(slots=True)
class Catalog:
    """The pipelines that are shown.

    Attributes:
        places: the command's arguments.
        pipelines: id -> pipeline, and its reader; None for one whose definition cannot be read.
    """

    places: Sequence[str]
    pipelines: dict[str, tuple[FoundPipeline, PipelineReader | None]] = field(default_factory=dict)
    _searched: float | None = None
    _overview: tuple[float, dict[str, Any]] | None = None
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def search(self) -> None:
        """Looks for pipelines; keeps the readers of those that are as before. Raises as `find`."""
        pipelines = find(self.places)
        known = self.pipelines
        self.pipelines = {
            one.id: known[one.id]
            if one.id in known and known[one.id][0] == one
            else (one, None if one.folder is None else PipelineReader(one))
            for one in pipelines
        }
        self._searched = time.monotonic()

    def overview(self) -> dict[str, Any]:
        """The overview, at most a second old."""
        with self._lock:
            if self._overview is None or time.monotonic() - self._overview[0] > _SAME_GLANCE:
                self._search_again()
                with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="monitor") as pool:
                    now = datetime.now(UTC)
                    shown = list(pool.map(lambda one: views.at_a_glance(one[0], one[1], now), self.pipelines.values()))
                self._overview = time.monotonic(), views.overview(shown, now)
            return self._overview[1]

    def _search_again(self) -> None:
        if self._searched is None or time.monotonic() - self._searched > _SEARCH_AGAIN:
            try:
                self.search()
            except ChangefeedError:  # the folder does not answer: the pipelines that are known say so, too
                self._searched = time.monotonic()


@dataclass(frozen=True, slots=True)
class Pages:
    """Answers requests.

    Attributes:
        catalog: the pipelines.
        access: who may see them.
        actions: whether dead letters may be replayed.
    """

    catalog: Catalog
    access: Access
    actions: bool = False
    templates: jinja2.Environment = field(default_factory=lambda: _templates())

    # Contents: the JSON of the twin, and what only the template needs.

    def overview(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """`/`."""
        return self.catalog.overview(), {}

    def pipeline(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """`/pipelines/{id}`."""
        chosen, reader = self._found(request)
        now = datetime.now(UTC)
        before = _number(request, "before")
        if reader is None:
            return views.unreadable(chosen, now), {"charts": [], "before": None}
        shown = views.pipeline(reader, now, before=before)
        return shown, {"charts": _charts(shown), "before": before}

    def tables(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """`/pipelines/{id}/tables`."""
        search = request.query_params.get("search", "")
        return views.tables(self._reader(request), _number(request, "page") or 1, search), {}

    def table(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """`/pipelines/{id}/table?name=`."""
        return views.table(self._reader(request), request.query_params.get("name", "")), {}

    def row(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """`/pipelines/{id}/row?name=&key=`."""
        values = request.query_params.getlist("key")
        return row_view.row(self._reader(request), request.query_params.get("name", ""), values), {}

    def letters(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """`/pipelines/{id}/letters`."""
        replayed = request.query_params.get("replayed") == "yes"
        return views.letters(self._reader(request), _number(request, "page") or 1, replayed=replayed), {}

    def letter(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """`/pipelines/{id}/letter?position=`."""
        shown, stored = views.letter(self._reader(request), request.query_params.get("position", ""))
        chosen, _ = self._found(request)
        dumps = [dump(name, data, stored.byte) for name, data in (("key", stored.key), ("value", stored.value))]
        may = self.actions and chosen.definition is not None and stored.replayed is None
        return shown, {"dumps": dumps, "may_replay": may}

    def definition(self, request: Request) -> tuple[dict[str, Any], dict[str, Any]]:
        """`/pipelines/{id}/definition`."""
        return views.definition(self._found(request)[0]), {}

    # Answers.

    def html(self, request: Request, name: str, status: int = 200, **context: Any) -> Response:
        """Renders a template."""
        cookie = request.cookies.get(COOKIE) or (self.access.new_session() if context.get("may_replay") else "")
        chosen = self.catalog.pipelines.get(request.path_params.get("id", ""))
        text = self.templates.get_template(name).render(
            found=chosen and chosen[0], csrf=self.access.csrf(cookie), path=request.url.path, query=request.url.query,
            actions=self.actions, needs_token=self.access.token is not None, **context,
        )  # fmt: skip
        response = HTMLResponse(text, status)
        if cookie and cookie != request.cookies.get(COOKIE):
            self._set_cookie(response, cookie)
        return response

    def failed(self, request: Request, status: int, message: str) -> Response:
        """Answers with an error, as the address asks for it."""
        message = redact(message)
        if request.url.path.endswith(".json"):
            return JSONResponse({"error": message}, status)
        return self.html(request, "error.html", status, message=message)

    async def login(self, request: Request) -> Response:
        """`/login`: the form, and its answer."""
        if request.method != "POST" or self.access.token is None:
            return self.html(request, "login.html", wrong=False)
        form = await _form(request)
        if not self.access.is_token(form.get("token", "")):
            await asyncio.sleep(0.5)
            return self.html(request, "login.html", 403, wrong=True)
        response = RedirectResponse("/", 303)
        self._set_cookie(response, self.access.new_session())
        return response

    async def replay(self, request: Request) -> Response:
        """`/pipelines/{id}/replay`: replays one dead letter, or all of them."""
        if not self.actions:
            return self.failed(request, 403, "This page only shows. Start it with --actions to replay dead letters.")
        form = await _form(request)
        if not self.access.may_post(request, form.get("csrf", "")):
            return self.failed(request, 403, "The form is not from this page, or it is too old. Go back and reload it.")
        chosen, _ = self._found(request)
        if chosen.path is None or chosen.definition is None:
            return self.failed(request, 409, "Dead letters are replayed by a definition; the page has only the folder.")
        path, position = chosen.path, form.get("position") or None
        code, output = await run_in_threadpool(replay, path, position)
        return self.html(request, "replay.html", code=code, output=output, position=position)

    def _set_cookie(self, response: Response, cookie: str) -> None:
        response.set_cookie(COOKIE, cookie, httponly=True, samesite="strict", secure=self.access.secure)

    def _found(self, request: Request) -> tuple[FoundPipeline, PipelineReader | None]:
        id = request.path_params["id"]
        if id not in self.catalog.pipelines:
            raise views.NotThereError("There is no such pipeline.")
        return self.catalog.pipelines[id]

    def _reader(self, request: Request) -> PipelineReader:
        chosen, reader = self._found(request)
        if reader is None:
            raise views.NotThereError(f"The definition cannot be read: {chosen.error}")
        return reader


def application(catalog: Catalog, access: Access, *, actions: bool = False) -> Starlette:
    """Returns the application.

    Args:
        catalog: the pipelines, searched already.
        access: who may see them.
        actions: whether dead letters may be replayed.
    """
    pages = Pages(catalog, access, actions)
    own = "/pipelines/{id}"
    shown = (
        ("/", "/overview.json", pages.overview, "overview.html"),
        (f"{own}/tables", f"{own}/tables.json", pages.tables, "tables.html"),
        (f"{own}/table", f"{own}/table.json", pages.table, "table.html"),
        (f"{own}/row", f"{own}/row.json", pages.row, "row.html"),
        (f"{own}/letters", f"{own}/letters.json", pages.letters, "letters.html"),
        (f"{own}/letter", f"{own}/letter.json", pages.letter, "letter.html"),
        (f"{own}/definition", f"{own}/definition.json", pages.definition, "definition.html"),
        (own, f"{own}.json", pages.pipeline, "pipeline.html"),
    )
    routes = [
        Route("/login", pages.login, methods=["GET", "POST"]),
        Route(f"{own}/replay", pages.replay, methods=["POST"]),
        Route("/static/{name}", _static),
    ]
    for page, twin, content, template in shown:
        routes += [Route(twin, _answer(pages, content, None)), Route(page, _answer(pages, content, template))]

    async def dispatch(request: Request, answer: Any) -> Response:
        return await guarded(access, request, answer)

    def refused(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        return pages.failed(request, error.status_code, error.detail)

    return Starlette(
        routes=routes,
        middleware=[Middleware(BaseHTTPMiddleware, dispatch=dispatch)],
        exception_handlers={HTTPException: refused},
    )


_Content = Callable[[Request], tuple[dict[str, Any], dict[str, Any]]]


def _answer(pages: Pages, content: _Content, template: str | None) -> Callable[[Request], Response]:
    """The handler of an address: runs in a thread, because it reads files."""

    def answer(request: Request) -> Response:
        try:
            shown, more = content(request)
        except views.NotThereError as error:
            return pages.failed(request, 404, str(error))
        except (ChangefeedError, OSError) as error:
            return pages.failed(request, 502, str(error))
        return JSONResponse(shown) if template is None else pages.html(request, template, shown=shown, **more)

    return answer


def _number(request: Request, name: str) -> int | None:
    """A positive number in the query; None if there is none.

    Raises:
        NotThereError: it is not such a number.
    """
    text = request.query_params.get(name)
    if not text:
        return None
    if not (text.isascii() and text.isdecimal() and len(text) < 19 and int(text)):
        raise views.NotThereError(f"{name} is not a number from 1: {text!r}.")
    return int(text)


async def _form(request: Request) -> dict[str, str]:
    """The fields of a small form; empty if it is too large or of another kind."""
    data = b""
    async for part in request.stream():
        data += part
        if len(data) > _FORM_BYTES:
            return {}
    fields = parse_qs(data.decode("utf-8", "replace"), keep_blank_values=True)
    return {name: values[0] for name, values in fields.items()}


_STATIC = {"style.css": "text/css", "refresh.js": "text/javascript"}


def _static(request: Request) -> Response:
    name = request.path_params["name"]
    if name not in _STATIC:
        raise HTTPException(404)
    content = resources.files("changefeed.monitor").joinpath("static", name).read_bytes()
    return Response(content, media_type=_STATIC[name], headers={"Cache-Control": "max-age=300"})


def _charts(shown: Mapping[str, Any]) -> list[tuple[str, Chart]]:
    """The charts of a pipeline's steps: lag, and rate."""
    steps = shown["steps"][::-1]
    charts = (("Lag", "lag_seconds", "seconds"), ("Rate", "rows_per_second", "rows a second"))
    drawn: list[tuple[str, Chart]] = []
    for title, name, unit in charts:
        points = [(datetime.fromisoformat(one["at"]), float(one[name])) for one in steps if one[name] is not None]
        if (made := chart(points, title, unit)) is not None:
            drawn.append((f"{title}, {unit}", made))
    return drawn


def _templates() -> jinja2.Environment:
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("changefeed.monitor"),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.globals["version"] = __version__
    environment.filters.update(
        clock=lambda text: "" if text is None else f"{text[:19].replace('T', ' ')}Z",
        count=lambda value: "" if value is None else f"{value:,}",
        short=lambda value: "" if value is None else number(float(value)),
        url=lambda text: quote(str(text), safe=""),
    )
    return environment
