"""Records the vectors: `python -m tests.mysql.binlog.record` runs statements on real servers and keeps their binlog files.

    vectors/<name>.binlog    the file, byte for byte
    vectors/<name>.json      server: its version; sql: the statements; tables: the rows of SELECT; events: SHOW BINLOG EVENTS

`mysql-tagged` and `mysql-tagged-set` are of MySQL 9.7: they were recorded by hand, with the statements in their JSON.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.mysql.binlog.histories import JSON_COLUMNS, History, json_changes, kinds, listed, selected
from tests.services.database import Database, MariaDb, MariaDb118, MySql, MySql97

VECTORS = Path(__file__).parent / "vectors"
OTHER_EVENTS = """\
CREATE TABLE s (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(20)); CREATE TABLE m (id INT PRIMARY KEY) ENGINE=MyISAM;
XA START 'g','b',7; INSERT INTO s (v) VALUES ('x'); XA END 'g','b',7; XA PREPARE 'g','b',7; XA COMMIT 'g','b',7;
XA START 'h'; INSERT INTO s (v) VALUES ('y'); XA END 'h'; XA COMMIT 'h' ONE PHASE;
INSERT INTO m VALUES (1),(2);
BEGIN; INSERT INTO s (v) VALUES ('1'); SAVEPOINT p; INSERT INTO s (v) VALUES ('2'); ROLLBACK TO p; COMMIT;
SET SESSION binlog_format = STATEMENT; SET @u = 'u'; INSERT INTO s (v) VALUES (@u), (RAND()); SET SESSION binlog_format = ROW;
SET time_zone = '+02:00'; INSERT INTO s (v) VALUES (NOW()); ALTER TABLE s ADD COLUMN z INT; DROP TABLE m; TRUNCATE s;
"""
COMPRESSED = {
    "mysql": "SET SESSION binlog_transaction_compression = ON, binlog_row_value_options = 'PARTIAL_JSON'",
    "mariadb": "SET GLOBAL log_bin_compress = ON; SET GLOBAL log_bin_compress_min_len = 10",
}
MINIMAL = "SET SESSION binlog_row_image = MINIMAL"


def main() -> None:
    """Records all vectors of all servers: of the newer ones those of events, in which servers differ."""
    VECTORS.mkdir(exist_ok=True)
    for server in (MariaDb, MySql):
        with server() as database:
            history = History(1, kinds(database), tables=1, width=60)
            record(database, f"{database.connector}-types", history.tables, history.create() + history.changes(8))
    servers: dict[str, type[Database]] = {
        "mariadb": MariaDb, "mysql": MySql, "mariadb-11.8": MariaDb118, "mysql-9.7": MySql97,
    }  # fmt: skip
    for name, of_events in servers.items():
        with of_events() as database:
            history = History(2, ["i32", "vc_utf8mb4", "tx", "dec18_9"], tables=1)
            sql = f"{history.create()}{OTHER_EVENTS};{MINIMAL};{history.changes(5)}"
            sql += f"{COMPRESSED[database.connector]};{history.changes(5)}"
            record(database, f"{name}-events", history.tables, sql)
    with MySql() as database:
        record(database, "mysql-json", {"t0": JSON_COLUMNS}, json_changes("MINIMAL", 20))


def record(database: Database, name: str, tables: dict[str, list[str]], sql: str) -> None:
    """Runs the statements and writes one vector."""
    database.execute("FLUSH LOGS")
    file = database.binlogs()[-1]
    database.execute(sql)
    rows = {table: selected(database, table, columns) for table, columns in tables.items()}
    database.execute("FLUSH LOGS")
    version = database.selected("SELECT VERSION()", "mysql")[0][0]
    described: dict[str, Any] = {"server": version, "sql": sql, "tables": rows, "events": listed(database, file.name)}
    (VECTORS / f"{name}.binlog").write_bytes(file.read_bytes())
    text = json.dumps(described, ensure_ascii=False, indent=1)
    (VECTORS / f"{name}.json").write_text(text + "\n", encoding="utf-8")
    print(name, file.stat().st_size)


if __name__ == "__main__":
    main()
