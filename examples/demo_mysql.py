#!/usr/bin/env python3
"""A database into Delta tables while it changes, on this machine, in about a minute: `make demo SOURCE=mysql`.

It starts a MariaDB of its own on a free port of loopback, runs the commands that you would type, changes rows meanwhile, and
compares the tables with the database. Everything that it writes is in examples/mysql/out; the server is stopped at the end.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pymysql
from deltalake import DeltaTable, QueryBuilder

if TYPE_CHECKING:
    from pymysql.connections import Connection

ROOT = Path(__file__).resolve().parent.parent
OUT = Path("examples") / "mysql" / "out"
DEFINITION = OUT / "pipeline.yaml"
ORDERS = ROOT / OUT / "lake" / "shop" / "orders"
PASSWORD = "sesame"
SECONDS = 20  # of changes
LIMIT = 180
ALTER = "ALTER TABLE orders ADD COLUMN priority INT NOT NULL DEFAULT 3"

Totals = tuple[int, Decimal]  # orders, and the sum of their totals


def main() -> int:
    if sys.argv[1:]:
        print("the demo of a database writes Delta tables: leave SINK out")
        return 2
    for program in ("mariadbd", "mariadb-install-db"):
        if shutil.which(program) is None:
            print(f"`{program}` is not there. Install MariaDB's server, such as: apt-get install mariadb-server-core")
            return 2
    shutil.rmtree(ROOT / OUT, ignore_errors=True)
    (ROOT / OUT).mkdir(parents=True)
    os.environ["MYSQL_PASSWORD"] = PASSWORD
    with mariadb() as port:
        say("1. A database with 5,000 orders; what it has, and a definition that captures it")
        database = connected(port)
        fill(database)
        changefeed("discover", f"mysql://changefeed:{PASSWORD}@127.0.0.1:{port}/shop", "--write", str(DEFINITION))
        changefeed("check", str(DEFINITION))
        say(f"2. A first copy, then the log: the tables follow while the database changes for {SECONDS} seconds")
        with running():
            follow(database)
        say("3. The cut and the position that the pipeline has recorded")
        changefeed("status", str(DEFINITION), "--no-source")
        say("4. What to try next")
        print(NEXT)
    return 0


def say(title: str) -> None:
    print(f"\n{title}\n{'─' * len(title)}", flush=True)


def changefeed(*args: str) -> None:
    """Runs one command as a user would."""
    print("$ changefeed", *args, flush=True)
    done = subprocess.run([sys.executable, "-m", "changefeed.cli", *args], cwd=ROOT, check=False)
    if done.returncode:
        sys.exit(done.returncode)


@contextmanager
def mariadb() -> Iterator[int]:
    """A MariaDB that is set up for capture; yields its port."""
    with tempfile.TemporaryDirectory(prefix="changefeed-demo-") as folder:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port: int = free.getsockname()[1]
        data, temporary, log = Path(folder, "data"), Path(folder, "tmp"), Path(folder, "log")
        temporary.mkdir()
        root = ["--user=root"] if os.geteuid() == 0 else []
        common = ["--no-defaults", f"--datadir={data}", f"--tmpdir={temporary}", *root]
        install = ["mariadb-install-db", *common, "--skip-test-db", "--auth-root-authentication-method=normal"]
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL)
        settings = ["--server-id=1", "--log-bin=binlog", "--binlog-format=ROW", "--binlog-row-metadata=FULL"]
        place = [f"--port={port}", "--bind-address=127.0.0.1", f"--socket={folder}/socket", f"--pid-file={folder}/pid"]
        with log.open("wb") as out:
            server = subprocess.Popen(["mariadbd", *common, *place, *settings], stdout=out, stderr=out)
        try:
            create_user(Path(folder, "socket"), server)
            yield port
        finally:
            server.terminate()
            server.wait()


def create_user(path: Path, server: subprocess.Popen[bytes]) -> None:
    """Waits for the server, and creates the user with the rights of docs/guides/mysql.md."""
    while True:
        with suppress(pymysql.OperationalError):
            root = pymysql.connect(user="root", unix_socket=str(path))
            break
        if server.poll() is not None:
            sys.exit(f"MariaDB did not start: {path.with_name('log').read_text(errors='replace')[-2000:]}")
        time.sleep(0.1)
    with root, root.cursor() as cursor:
        cursor.execute(f"CREATE USER changefeed@'127.0.0.1' IDENTIFIED BY '{PASSWORD}'")
        cursor.execute("GRANT ALL ON shop.* TO changefeed@'127.0.0.1'")
        cursor.execute("GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO changefeed@'127.0.0.1'")


def connected(port: int) -> Connection[Any]:
    return pymysql.connect(host="127.0.0.1", port=port, user="changefeed", password=PASSWORD)


def fill(database: Connection[Any]) -> None:
    """Creates the shop."""
    with database.cursor() as cursor:
        cursor.execute("CREATE DATABASE shop")
        database.select_db("shop")
        cursor.execute("CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40), since DATE)")
        cursor.execute(
            "CREATE TABLE orders (id BIGINT AUTO_INCREMENT PRIMARY KEY, customer INT NOT NULL, total DECIMAL(12,2), "
            "state ENUM('new','paid','shipped') NOT NULL, changed TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6))"
        )
        people = [(n, f"customer {n}", f"20{n % 25:02}-01-01") for n in range(200)]
        cursor.executemany("INSERT INTO customers VALUES (%s, %s, %s)", people)
        orders = [(n % 200, Decimal(n) / 4) for n in range(5000)]
        cursor.executemany("INSERT INTO orders (customer, total, state) VALUES (%s, %s, 'new')", orders)
    database.commit()


@contextmanager
def running() -> Iterator[None]:
    """A run of the pipeline in the background."""
    print(f"$ changefeed run {DEFINITION} &        # its lines are in {OUT}/run.log", flush=True)
    with ROOT.joinpath(OUT, "run.log").open("wb") as log:
        command = [sys.executable, "-m", "changefeed.cli", "run", str(DEFINITION)]
        run = subprocess.Popen(command, cwd=ROOT, stdout=log, stderr=log, start_new_session=True)
    try:
        yield
        if run.poll() is not None:
            sys.exit(f"the run has ended: see {OUT}/run.log")
    finally:
        run.send_signal(signal.SIGTERM)
        run.wait()


def follow(database: Connection[Any]) -> None:
    """Changes rows, shows the database and the lake side by side, and waits until they are equal."""
    print(f"{'second':>8}{'MariaDB: orders':>18}{'their total':>16}{'lake: orders':>16}{'their total':>16}", flush=True)
    begun, copied, altered = time.monotonic(), LIMIT, False  # seconds count from the beginning of the run
    while (second := int(time.monotonic() - begun)) < LIMIT:
        if is_changing := second < copied + SECONDS:
            change(database, until=time.monotonic() + 2)
        if not altered and second > copied + SECONDS / 2:
            altered = True
            with database.cursor() as cursor:
                cursor.execute(ALTER)
            print(f"{'':10}{ALTER}", flush=True)
        upstream, lake = totals_of_database(database), totals_of_lake()
        print(f"{time.monotonic() - begun:8.1f}{columns(upstream)}{columns(lake)}", flush=True)
        if lake is not None and lake[0] and copied == LIMIT:
            copied = second
        if not is_changing and lake == upstream:
            print(f"{'':10}equal", flush=True)
            return
        time.sleep(0 if is_changing else 1)
    sys.exit(f"not equal after {LIMIT} s: see {OUT}/run.log")


def change(database: Connection[Any], until: float) -> None:
    """Transactions of new, changed and deleted orders, until a time of the monotonic clock."""
    draw = random.Random()
    with database.cursor() as cursor:
        while time.monotonic() < until:
            customer, total = draw.randrange(200), Decimal(draw.randrange(10**6)) / 100
            cursor.execute("INSERT INTO orders (customer, total, state) VALUES (%s, %s, 'new')", (customer, total))
            cursor.execute("UPDATE orders SET state = 'paid', total = total + 1 WHERE id = %s", (draw.randrange(5000),))
            cursor.execute("DELETE FROM orders WHERE id = %s", (draw.randrange(10**5),))
            database.commit()
            time.sleep(0.01)


def totals_of_database(database: Connection[Any]) -> Totals:
    with database.cursor() as cursor:
        cursor.execute("SELECT COUNT(*), SUM(total) FROM orders")
        count, total = cursor.fetchone()
    database.commit()  # the next SELECT sees what is new
    return count, total


def totals_of_lake() -> Totals | None:
    """The same of the newest version of the Delta table; None before the first copy."""
    if not DeltaTable.is_deltatable(str(ORDERS)):
        return None
    query = "SELECT COUNT(*) AS orders, SUM(total) AS total FROM t"
    row = pa.table(QueryBuilder().register("t", DeltaTable(ORDERS)).execute(query).read_all()).to_pylist()[0]
    return row["orders"], row["total"] or Decimal(0)


def columns(totals: Totals | None) -> str:
    return f"{'-':>18}{'-':>16}" if totals is None else f"{totals[0]:>18,}{totals[1]:>16,.2f}"


NEXT = f"""
  docs/guides/mysql.md     the settings, the rights and the definition for a database of your own
  {DEFINITION}
  {OUT}/lake    the tables; docs/guides/reading.md reads them"""

if __name__ == "__main__":
    sys.stdout.reconfigure(encoding="utf-8")  # type: ignore[union-attr]  # a file, as Python starts
    sys.exit(main())
