"""The page as a client sees it."""

from __future__ import annotations

from collections.abc import Sequence
from html.parser import HTMLParser
from typing import Any

from starlette.testclient import TestClient

from changefeed.monitor.app import Catalog, application
from changefeed.monitor.security import Access

BASE = "http://127.0.0.1:8464"


class Site:
    """A client of the page over some places; for as long as a `with` lasts."""

    def __init__(self, places: Sequence[str], access: Access | None = None, *, actions: bool = False) -> None:
        self.catalog = Catalog(places)
        self.catalog.search()
        app = application(self.catalog, access or Access("127.0.0.1"), actions=actions)
        self.client = TestClient(app, base_url=BASE, follow_redirects=False)

    def __enter__(self) -> Site:
        self.client.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self.client.close()

    def html(self, path: str) -> str:
        """The text of a page."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        assert answer.headers["content-type"] == "text/html; charset=utf-8"
        return answer.text

    def json(self, path: str) -> Any:
        """The document of a twin."""
        answer = self.client.get(path)
        assert answer.status_code == 200, answer.text
        return answer.json()

    def of(self, name: str) -> str:
        """The address of a pipeline's page."""
        (id,) = [id for id, (pipeline, _) in self.catalog.pipelines.items() if pipeline.name == name]
        return f"/pipelines/{id}"


class Outline(HTMLParser):
    """The elements of a page, in order.

    Attributes:
        elements: (name, attributes) of each start tag.
        unclosed: the elements that are open at the end.
        texts: (name of the innermost element, text).
    """

    _VOID = ("meta", "link", "input")

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.unclosed: list[str] = []
        self.texts: list[tuple[str, str]] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in self._VOID:
            self.unclosed.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.unclosed[-1] == tag, f"</{tag}> in {self.unclosed}"
        self.unclosed.pop()

    def handle_data(self, data: str) -> None:
        if self.unclosed:
            self.texts.append((self.unclosed[-1], data))

    def all(self, *names: str) -> list[dict[str, str | None]]:
        """The attributes of all elements with these names."""
        return [attributes for name, attributes in self.elements if name in names]
