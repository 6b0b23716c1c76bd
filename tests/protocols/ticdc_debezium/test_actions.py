"""Names of statements' actions, as the numbers of Open Protocol name them."""

from __future__ import annotations

import pytest

from changefeed.model.event import SchemaChange
from changefeed.protocols.ticdc_debezium.actions import ALTERS, CREATES, DROPS, action, change
from tests.protocols.conformance.cases import decode, histories


def test_statements_of_the_history_are_named_as_its_open_protocol_names_them() -> None:
    names = [
        {(e.ddl, e.type) for e in decode(h).control if isinstance(e, SchemaChange)}
        for h in histories()
        if h.protocol in ("ticdc-open", "ticdc-debezium")
    ]
    assert len(names) == 4
    assert all(one == names[0] for one in names)


@pytest.mark.parametrize(
    "statement, name",
    [
        ("CREATE TABLE `t` (`a` INT)", "create_table"),
        ("CREATE OR REPLACE ALGORITHM = UNDEFINED VIEW `v` AS SELECT 1", "create_view"),
        ("CREATE UNIQUE INDEX `i` ON `d`.`t` (`a`)", "add_index"),
        ("DROP INDEX `i` ON `d`.`t`", "drop_index"),
        ("TRUNCATE TABLE `d`.`t`;", "truncate_table"),
        ("RENAME TABLE `d`.`a` TO `d`.`b`", "rename_table"),
        ("ALTER DATABASE `d` CHARACTER SET = utf8mb4", "modify_database_charset"),
        ("ALTER TABLE `d`.`t` ADD COLUMN `a` DECIMAL(12,2)", "add_column"),
        ("ALTER TABLE `t` ADD COLUMN (`a` INT)", "add_column"),
        ("ALTER TABLE `t` ADD COLUMN (`a` DECIMAL(12,2), `b` INT)", "multi_schema_change"),
        ("ALTER TABLE `d`.`t` ADD COLUMN `a` ENUM('x,y','z'), DROP INDEX `i`", "multi_schema_change"),
        ("ALTER TABLE `d`.`t` ADD INDEX `i`(`a`, `b`)", "add_index"),
        ("ALTER TABLE `d`.`t` ADD CONSTRAINT `c` UNIQUE KEY `i`(`a`)", "add_index"),
        ("ALTER TABLE `d`.`t` ADD PRIMARY KEY(`a`)", "add_primary_key"),
        ("ALTER TABLE `d`.`t` DROP PRIMARY KEY", "drop_primary_key"),
        ("ALTER TABLE `d`.`t` RENAME INDEX `a` TO `b`", "rename_index"),
        ("ALTER TABLE `d`.`t` RENAME AS `d`.`u`", "rename_table"),
        ("ALTER TABLE `d`.`t` ALTER COLUMN `a` SET DEFAULT 3", "set_default_value"),
        ("ALTER TABLE `d`.`t` ALTER INDEX `a` INVISIBLE", "alter_index_visibility"),
        ("ALTER TABLE `d`.`t` COMMENT = 'a, b'", "modify_table_comment"),
        ("ALTER TABLE `d`.`t` AUTO_INCREMENT = 100", "rebase_auto_id"),
        ("ALTER TABLE `d`.`t` CONVERT TO CHARACTER SET UTF8MB4", "modify_table_charset"),
        ("ALTER TABLE `d`.`t` TRUNCATE PARTITION `p`", "truncate_table_partition"),
        ("ALTER TABLE `d`.`t` DROP PARTITION `p`,`q`", "drop_table_partition"),
        ("ALTER TABLE `d`.`t` EXCHANGE PARTITION `p` WITH TABLE `d`.`x`", "exchange_table_partition"),
        ("ALTER TABLE `d`.`t` PARTITION BY HASH (`a`) PARTITIONS 3", "alter_table_partitioning"),
        ("ALTER TABLE `d`.`t` REMOVE PARTITIONING", "remove_partitioning"),
        ("ALTER TABLE `d`.`t`", "other"),
        ("RECOVER TABLE `d`.`t`", "other"),
        ("", "other"),
        ("'", "other"),
    ],
)
def test_a_statement_is_named(statement: str, name: str) -> None:
    assert action(statement) == name


def test_every_named_action_is_a_create_an_alter_or_a_drop() -> None:
    assert {change(name) for name in CREATES | ALTERS | DROPS} == {"CREATE", "ALTER", "DROP"}
    assert change("recover_table") is None
