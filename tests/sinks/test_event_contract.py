"""The event sinks keep the contract of `sinks.events`: the same cases in memory, in a folder and in Kafka."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.services.kafka import KafkaBroker
from tests.sinks.event_conformance import Conformance
from tests.sinks.event_harnesses import Files, Kafka, Memory


class TestMemory(Conformance):
    @pytest.fixture
    def harness(self) -> Memory:
        return Memory()


class TestFiles(Conformance):
    @pytest.fixture
    def harness(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Files:
        return Files(tmp_path / "log", monkeypatch)


class TestKafka(Conformance):
    schedule = (6, 1)  # an append takes a tenth of a second

    @pytest.fixture
    def harness(self, kafka: KafkaBroker, monkeypatch: pytest.MonkeyPatch) -> Kafka:
        return Kafka(kafka, monkeypatch)
