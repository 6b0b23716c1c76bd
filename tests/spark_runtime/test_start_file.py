"""Properties reach Spark without a command line, which every user of the machine could read."""

from __future__ import annotations

import json
import os
import shlex
import stat
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from changefeed.errors import ConfigError
from changefeed.spark_runtime.start_file import passed_in_a_file

CANARY = "canary7f3a"
CONFIG = {
    "spark.driver.memory": "700m",
    "spark.hadoop.fs.s3a.secret.key": f"{CANARY}-s3",
    "spark.my.password": f" {CANARY}: 'é' \"=\" \\ \n# 中\t",
    "spark.driver.extraJavaOptions": f"-Dmine.password='{CANARY} \"a\\b' -XX:+UseSerialGC",
}

# Reads every process that this one starts, all the time while Spark starts and works.
SCRIPT = """
import json, sys, threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
import psutil
import pyarrow as pa
from changefeed.spark_runtime.session import session

config, seen, over = json.load(sys.stdin), set(), threading.Event()

def look():
    while not over.wait(0.005):
        for child in psutil.Process().children(recursive=True):
            with suppress(psutil.NoSuchProcess):
                seen.update(child.cmdline(), *child.environ().items())

watch = ThreadPoolExecutor().submit(look)
spark = session("files", master="local[1]", config=config)
spark.range(2).mapInArrow(lambda batches: batches, "id long").collect()
conf = {name: spark.sparkContext.getConf().get(name) for name in config}
system = spark._jvm.java.lang.System.getProperty("mine.password")
hadoop = spark._jsc.hadoopConfiguration().get("fs.s3a.secret.key")
heap = spark._jvm.java.lang.Runtime.getRuntime().maxMemory()
over.set()
watch.result()
print(json.dumps({"conf": conf, "system": system, "hadoop": hadoop, "heap": heap, "words": sorted(seen)}))
"""


@pytest.mark.heavy
@pytest.mark.xdist_group("processes")
def test_no_property_is_on_a_command_line_or_in_an_environment(tmp_path: Path) -> None:
    environment = os.environ | {"TMPDIR": str(tmp_path)}
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(CONFIG), capture_output=True, text=True, timeout=240, env=environment,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    seen = json.loads(ran.stdout)
    assert seen["conf"].pop("spark.driver.extraJavaOptions").endswith(CONFIG["spark.driver.extraJavaOptions"])
    assert seen["conf"].items() <= CONFIG.items()
    assert seen["system"] == f'{CANARY} "a\\b'
    assert seen["hadoop"] == f"{CANARY}-s3"
    assert 600 << 20 < seen["heap"] <= 700 << 20
    assert any("org.apache.spark.deploy.SparkSubmit" in word for word in seen["words"])
    assert any("changefeed.spark_runtime.daemon" in word for word in seen["words"])
    assert "-XX:+UseSerialGC" in seen["words"]
    assert [word for word in seen["words"] if CANARY in word] == []
    assert [path.name for path in tmp_path.rglob("changefeed-*")] == []


def test_the_file_is_private_and_gone_afterwards(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--conf a=b pyspark-shell")
    with passed_in_a_file([("spark.x", "1"), ("spark.driver.extraJavaOptions", "-Da=1 -XX:+UseG1GC")]):
        words = shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])
        assert (words[0], words[2:]) == (
            "--properties-file",
            ["--load-spark-defaults", "--conf", "a=b", "pyspark-shell"],
        )
        folder = Path(words[1]).parent
        options = folder / "java-options"
        assert Path(words[1]).read_text() == f"spark.x=1\nspark.driver.extraJavaOptions=-XX:+UseG1GC @{options}\n"
        assert options.read_text() == '"-Da=1"\n'
        modes = {stat.S_IMODE(path.stat().st_mode) for path in folder.iterdir()}
        assert (stat.S_IMODE(folder.stat().st_mode), modes) == (0o700, {0o600})
    assert not folder.exists()
    assert os.environ["PYSPARK_SUBMIT_ARGS"] == "--conf a=b pyspark-shell"


def test_the_file_is_gone_after_a_failed_start() -> None:
    with suppress(OSError), passed_in_a_file([]):
        folder = Path(shlex.split(os.environ["PYSPARK_SUBMIT_ARGS"])[1]).parent
        raise OSError("no java")
    assert not folder.exists()
    assert "PYSPARK_SUBMIT_ARGS" not in os.environ


def test_a_properties_file_of_the_environment_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", "--properties-file mine.conf pyspark-shell")
    with pytest.raises(ConfigError) as caught, passed_in_a_file([]):
        pass
    assert str(caught.value) == (
        "PYSPARK_SUBMIT_ARGS names a --properties-file: put its properties under `spark:` in the definition"
    )
