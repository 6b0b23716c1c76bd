"""Applications that write to a server in random transactions, some of them in two phases (XA)."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random

from tests.services.database import Database


@dataclass
class Applications:
    """Sessions that write, some of them in transactions of two phases; each transaction has keys of its own.

    Attributes:
        keyless: whether they write the table without a key.
    """

    database: Database
    random: Random
    keyless: bool = True
    prepared: list[str] = field(default_factory=list)
    count: int = 0

    def step(self) -> None:
        """Begins a transaction, or ends one that was prepared."""
        if self.prepared and self.random.random() < 0.5:
            xid = self.prepared.pop(self.random.randrange(len(self.prepared)))
            self.database.execute(f"XA {self.random.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])} {xid}")
            return
        self.count += 1
        writes = "; ".join(self._write(self.count * 10 + n) for n in range(self.random.choice([1, 3, 3, 8])))
        kind = self.random.random()
        if kind < 0.25:
            self.database.execute(f"BEGIN; {writes}; {self.random.choice(['COMMIT', 'COMMIT', 'ROLLBACK'])}", "shop")
            return
        xid = self._xid()
        end = "XA COMMIT {} ONE PHASE" if kind < 0.4 else "XA PREPARE {}"
        self.database.execute(f"XA START {xid}; {writes}; XA END {xid}; {end.format(xid)}", "shop")
        if kind >= 0.4:
            self.prepared.append(xid)

    def _write(self, key: int) -> str:
        text = self.random.choice(["x", "ž" * 40, "XA COMMIT X'61',X'',1"]).replace("'", "''")
        more = [f"INSERT INTO log VALUES ({key % 3}, '{text}'), ({key % 3}, '{text}')"] if self.keyless else []
        return self.random.choice([
            *more,
            f"INSERT INTO a VALUES ({key}, '{text}')",
            f"INSERT INTO a VALUES ({key}, '{text}'); UPDATE a SET v = 'second' WHERE id = {key}",
            f"INSERT INTO a VALUES ({key}, '{text}'); DELETE FROM a WHERE id = {key}; INSERT INTO a VALUES ({key}, 'third')",
            f"INSERT INTO zz_other VALUES ({key})",
        ])  # fmt: skip

    def _xid(self) -> str:
        """A name; some are used again, when the transaction of that name has ended."""
        free = [f"'again{n}'" for n in range(2) if f"'again{n}'" not in self.prepared]
        own = [f"'global{self.count}', 'branch', {self.random.choice([0, 7, 2**31 - 1])}", f"X'00ff27{self.count:08x}'"]
        return self.random.choice(own + free)
