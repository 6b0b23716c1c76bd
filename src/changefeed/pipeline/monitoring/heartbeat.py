"""The heartbeat of a run: a small file in the pipeline's folder, by which `status` finds out anywhere whether a run is alive.

    heartbeat/<epoch, 20 digits>-<number, 20 digits>.json        a `RunNow`

Rule 1. A run writes a file with the next number every few seconds, and deletes its last one. The first of a run deletes those of
        earlier runs. A reader takes the last name, so a run that was replaced cannot be taken for the one that replaced it.
Rule 2. The last file of a run has `ended` set. If there is none, the run was killed, or its machine is gone.
Rule 3. Nothing depends on these files. A run that cannot write them goes on.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass

import msgspec

from changefeed.errors import ChangefeedError
from changefeed.pipeline.config.events import AnyDefinition, spark_of
from changefeed.pipeline.decoders import decoder_of
from changefeed.pipeline.monitoring.view import FORMAT, RunNow
from changefeed.pipeline.paths import own_folder
from changefeed.pipeline.store.folder import LedgerFolder, WritableFolder
from changefeed.pipeline.store.hadoop import folder_to_read
from changefeed.storage.local import LocalFolder

HEARTBEATS = "heartbeat"  # the folder, in the pipeline's own
_BEAT, _REMOTE_BEAT = 5.0, 15.0  # seconds between two heartbeats: on a local disk, and where each is two requests

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class Heartbeat:
    """Writes the heartbeat of one run.

    Attributes:
        folder: the folder `heartbeat` of the pipeline.
    """

    folder: WritableFolder
    _last: tuple[int, int] = (0, 0)  # epoch and number
    _failed: bool = False

    def write(self, now: RunNow) -> None:
        """Writes a heartbeat; an error is logged once, and does not end the run."""
        if not now.epoch:
            return  # the ledger is not claimed yet: an older run may be alive
        what = "the heartbeat cannot be written, so `status` does not show this run"
        try:
            old = self._write(now)
            what = "old heartbeats cannot be deleted"
            self.folder.delete(old)
        except (ChangefeedError, OSError) as error:
            if not self._failed:
                _log.info("%s: %s: %s", self.folder.path, what, error)
            self._failed = True

    def _write(self, now: RunNow) -> list[str]:
        """Writes a heartbeat; returns the names of those before it."""
        epoch, number = self._last
        old = [_name(epoch, number)] if epoch == now.epoch else self.folder.names("")
        number = number + 1 if epoch == now.epoch else 1
        if not self.folder.create(_name(now.epoch, number), msgspec.json.encode(now) + b"\n"):
            return []
        self._last = now.epoch, number
        return [name for name in old if name < _name(now.epoch, number)]


def beat_seconds(folder: WritableFolder) -> float:
    """Returns the seconds between two heartbeats in a folder."""
    return _BEAT if isinstance(folder, LocalFolder) else _REMOTE_BEAT


def heartbeat_folder(definition: AnyDefinition) -> LedgerFolder:
    """Opens the folder of a pipeline's heartbeats to read them; raises as `folder_to_read`."""
    return folder_to_read(f"{own_folder(definition)}/{HEARTBEATS}", definition.storage, spark_of(definition))


def read_heartbeat(folder: LedgerFolder) -> RunNow | None:
    """The newest heartbeat of a pipeline; None if it has none, or one of a later version of changefeed."""
    for _ in range(3):  # a run may delete the file between the list and the read
        names = folder.names("")
        if not names:
            return None
        data = folder.read(max(names))
        if data is not None:
            break
    else:
        return None
    try:
        if msgspec.json.decode(data)["format"] > FORMAT:
            return None
        return decoder_of(RunNow).decode(data)
    except (msgspec.DecodeError, UnicodeDecodeError, KeyError, TypeError):
        return None


def _name(epoch: int, number: int) -> str:
    return f"{epoch:020d}-{number:020d}.json"
