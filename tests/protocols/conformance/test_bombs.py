"""Every bomb of the corpus is refused within 100 ms of a core and 64 MiB; see `bombs.py`.

Tested with the reference decoder, and with the kernel if it is installed, as a pipeline runs them.
"""

from __future__ import annotations

from typing import Literal

import pytest

from changefeed.codec import decoding
from changefeed.model.batch import Decoded, record_batch
from changefeed.protocols import PROTOCOLS, protocol
from changefeed.protocols.base import FragmentDecoder, Stores
from tests import cost
from tests.examples import by_turns
from tests.protocols.conformance.bombs import MIB, Bomb, bombs

pytestmark = pytest.mark.slow
ALL = list(bombs())
# In turns, so that one in two is read by each decoder in each run.
EACH = [
    pytest.param(bomb, how, id=f"{bomb}-{how}")
    for number, bomb in enumerate(ALL)
    for how in (("off", "auto") if number % 2 else ("auto", "off"))
]


def set_off(bomb: Bomb, how: Literal["auto", "off"]) -> Decoded:
    """Decodes the bomb by a new decoder."""
    options = protocol(bomb.protocol).read_options(bomb.options)
    stores = Stores() if bomb.schema is None else Stores(get_schema=lambda _: str(bomb.schema))
    decoder = decoding.decoder(bomb.protocol, options, stores, kernel=how)
    place = {"topic": "inv.shop.orders", "partition": 0, "offset": 0}
    batch = record_batch([{**place, "key": bomb.key, "value": bomb.value}])
    changes = decoder.decode(batch)
    waits = len(decoder.waiting()) if isinstance(decoder, FragmentDecoder) else 0
    assert bomb.harmless or changes.dead or waits
    assert not waits or not changes.tables
    return changes


@pytest.mark.heavy
@pytest.mark.parametrize("bomb, how", by_turns(EACH, 2))
def test_a_bomb_is_refused_quickly_and_in_little_memory(bomb: Bomb, how: Literal["auto", "off"]) -> None:
    answers = list[Decoded]()
    assert cost.seconds(lambda: answers.append(set_off(bomb, how))) < 0.3
    changes = answers[0]
    assert bomb.harmless or not changes.tables
    assert all(letter.error.startswith(f"{bomb.protocol}: ") and len(letter.error) < 1000 for letter in changes.dead)
    assert cost.peak_bytes(lambda: set_off(bomb, how)) < 64 * MIB


def test_the_corpus_has_many_of_each_protocol() -> None:
    assert all(sum(bomb.protocol == name for bomb in ALL) > 15 for name in PROTOCOLS)
    assert len({str(bomb) for bomb in ALL}) == len(ALL) >= 60
