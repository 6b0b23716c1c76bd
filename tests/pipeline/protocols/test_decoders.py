"""Decoders that many threads use: msgspec may end the process if two threads collect what it needs about one class."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import msgspec
import pytest

from changefeed.pipeline import decoders
from changefeed.pipeline.decoders import decoder_of


def test_decoders_are_built_once_and_one_after_the_other(monkeypatch: pytest.MonkeyPatch) -> None:
    building, most, built = 0, 0, list[type]()
    lock = threading.Lock()

    def build(kind: Any) -> Any:
        nonlocal building, most
        with lock:
            building, most = building + 1, max(most, building + 1)
        time.sleep(0.01)
        with lock:
            building -= 1
            built.append(kind)
        return object()

    monkeypatch.setattr(decoders, "_decoders", {})
    monkeypatch.setattr(msgspec.json, "Decoder", build)
    kinds = [list[int], dict[str, int], tuple[int, ...], set[int]] * 8
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(decoder_of, kinds))
    assert most == 1
    assert len({id(one) for one in made}) == 4
    assert made[:4] * 8 == made
    assert len(built) == 4
