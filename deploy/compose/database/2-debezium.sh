#!/bin/sh
# The user of the connector, with the rights that Debezium documents. Runs once, while the database is made.
set -eu
mariadb --user=root --password="$MARIADB_ROOT_PASSWORD" <<SQL
CREATE USER 'debezium'@'%' IDENTIFIED BY '$DEBEZIUM_PASSWORD';
GRANT SELECT, RELOAD, SHOW DATABASES, LOCK TABLES, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO 'debezium'@'%';
SQL
