"""The store in memory keeps the contract."""

from __future__ import annotations

import pytest

from changefeed.pipeline.store.base import Keep, StateStore, StoreReader
from changefeed.pipeline.store.memory import Memory, MemoryStore
from tests.pipeline.store.conformance import Clock, Conformance, Kind


class InMemory(Kind):
    """A place in memory."""

    def __init__(self) -> None:
        self.memory = Memory()

    def store(self, pipeline: str = "shop", keep: Keep | None = None, now: Clock | None = None) -> StateStore:
        return MemoryStore(self.memory, pipeline, keep, **({"now": now} if now else {}))

    def reading(self, pipeline: str = "shop") -> StoreReader:
        return MemoryStore(self.memory, pipeline)

    def make_newer(self) -> str:
        self.memory.format, self.memory.version = 99, "7.0.0"
        return "memory"


class TestMemory(Conformance):
    @pytest.fixture
    def kind(self) -> Kind:
        return InMemory()

    def another(self, folders: pytest.TempPathFactory) -> Kind:
        return InMemory()
