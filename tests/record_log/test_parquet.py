"""Record logs as Parquet: folders, files written by Spark, and files that are not logs."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from changefeed.errors import SourceError
from changefeed.model.batch import RECORDS, record_batch
from changefeed.model.position import TOPIC_RULE
from changefeed.record_log import LogPosition, advance, count, partitions, read, write
from tests.record_log.made import rows_of, some_records


@pytest.mark.parametrize("topic", ["a:b", "", None])
def test_a_topic_that_positions_cannot_hold_is_refused(topic: str | None, tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    wanted = [{"topic": name, "partition": 0, "offset": n} for n, name in enumerate(["fine", topic])]
    write(path, [record_batch(wanted)])
    for look in (rows_of, partitions):
        with pytest.raises(SourceError) as raised:
            look(path)
        assert str(raised.value) == f"{path}: topic {topic!r}: {TOPIC_RULE}"


def test_a_folder_of_parquet_files_is_one_log(tmp_path: Path) -> None:
    folder = tmp_path / "spark-out"
    folder.mkdir()
    for part in (1, 0):
        write(folder / f"part-{part}.parquet", [some_records(5).slice(part * 2, 2)])
    (folder / "_SUCCESS").touch()
    (folder / ".part-0.parquet.crc").touch()
    assert pa.Table.from_batches(read(folder)) == pa.Table.from_batches([some_records(5).slice(0, 4)])
    assert (count(folder), advance(folder, LogPosition(1), 2)) == (4, LogPosition(3))


def test_parquet_as_spark_writes_it(tmp_path: Path) -> None:
    table = pa.Table.from_batches([some_records(8)])
    times = table.column("timestamp").cast(pa.timestamp("ns", tz="UTC"))
    spark = table.set_column(5, "timestamp", times).select(RECORDS.names[::-1])
    pq.write_table(spark, tmp_path / "log.parquet", use_deprecated_int96_timestamps=True)
    assert pa.Table.from_batches(read(tmp_path / "log.parquet")) == table


def test_parquet_with_other_columns_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    table = pa.Table.from_batches([some_records(2)])
    pq.write_table(table.drop_columns("headers"), path)
    with pytest.raises(SourceError) as raised:
        rows_of(path)
    assert str(raised.value) == (
        f'{path} is not a record log: it lacks headers. Read from Kafka with the option "includeHeaders" = "true".'
    )
    pq.write_table(table.drop_columns(["key", "value"]).append_column("x", pa.array([1, 2])), path)
    with pytest.raises(SourceError) as raised:
        count(path)
    assert str(raised.value) == f"{path} is not a record log: it lacks key, value and has x."
    path.write_bytes(b"PAR1 no")
    with pytest.raises(SourceError, match=f"^{path} is not a Parquet file: "):
        count(path)


def test_a_batch_of_large_records_is_bounded_by_bytes(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    write(path, [record_batch([{"topic": "t", "offset": n, "value": bytes([n]) * 1_000_000} for n in range(20)])])
    pq.write_table(pq.read_table(path), path, compression="none", use_dictionary=False)
    batches = list(read(path))
    assert sum(batch.num_rows for batch in batches) == 20
    assert max(batch.num_rows for batch in batches) == 4


def test_row_groups_without_a_wanted_partition_are_not_read(tmp_path: Path) -> None:
    path = tmp_path / "log.parquet"
    rows = [{"topic": "t", "partition": n // 4, "offset": n, "value": b"%d" % n} for n in range(16)]
    rows[6]["partition"] = 3  # in the second row group
    table = pa.Table.from_batches([record_batch(rows)])
    pq.write_table(table, path, row_group_size=4, compression="none")
    damaged = path.read_bytes()
    group = pq.ParquetFile(path).metadata.row_group(0)
    at = group.column(table.schema.get_field_index("value")).data_page_offset
    path.write_bytes(damaged[:at] + b"\xff" * 8 + damaged[at + 8 :])
    batches = list(read(path, only=lambda records: pc.equal(records.column("partition"), 3)))
    assert [n for batch in batches for n in batch.column("offset").to_pylist()] == [6, 12, 13, 14, 15]
    with pytest.raises(SourceError, match=r"row group 0: .*; 0 records could be read before that"):
        list(read(path, only=lambda records: pc.less(records.column("partition"), 3)))


def test_partitions_of_a_damaged_file_name_it(tmp_path: Path) -> None:
    """The footer of the file is whole, the pages before it are not."""
    path = tmp_path / "log.parquet"
    write(path, [some_records(50)])
    whole = path.read_bytes()
    footer = 8 + int.from_bytes(whole[-8:-4], "little")
    path.write_bytes(whole[:4] + b"\xff" * (len(whole) - 4 - footer) + whole[-footer:])
    with pytest.raises(SourceError, match=rf"^{path}: its topics cannot be read: "):
        partitions(path)
