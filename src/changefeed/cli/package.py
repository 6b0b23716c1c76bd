"""`changefeed package`: a folder with everything that a Spark cluster needs."""

from __future__ import annotations

from pathlib import Path

import click

from changefeed.cli.options import common, example
from changefeed.cli.output import Output, many


@click.command(
    epilog=example(
        "changefeed package --out changefeed-cluster",
        "changefeed package --out changefeed-cluster --at s3a://apps/changefeed",
    )
)
@click.option(
    "--out",
    metavar="FOLDER",
    default="changefeed-cluster",
    show_default=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="Folder to write to; created if it does not exist.",
)
@click.option(
    "--at",
    metavar="URL",
    help="URL from which the cluster will read the folder's files; paths in spark.conf begin with it.",
)
@common
@click.pass_obj
def package(output: Output, out: Path, at: str | None) -> None:
    """Pack this installation for the workers of a Spark cluster.

    The folder has an archive with Python, changefeed, its kernel and its packages; the jars of Delta and Kafka; a properties
    file that names them, for spark-submit; and the program to submit. The archive runs on machines with the same processor
    and a C library of the same version or newer: run this command on a machine like the workers.
    """
    from changefeed.spark_runtime import archive, package

    with output.status("packing"):
        made = package.write(out, at)
    if output.json:
        output.document(
            {
                "archive": str(made.archive),
                "bytes": made.archive.stat().st_size,
                "packages": made.packages,
                "jars": [str(jar) for jar in made.jars],
                "properties": str(made.properties),
                "program": str(made.program),
                "kernel": archive.has_kernel(),
            }
        )
        return
    size, named = made.archive.stat().st_size / 2**20, f"{package.prefix(out, at)}/{made.archive.name}#environment"
    submit = f"spark-submit --properties-file {made.properties} --load-spark-defaults --master MASTER {made.program}"
    output.lines(
        [
            f"{made.archive}: {many(len(made.packages), 'package')}, {size:,.0f} MiB",
            f"{made.properties.parent / 'jars'}: {many(len(made.jars), 'jar')}",
            "",
            "With `changefeed run`, in the pipeline's definition:",
            f"  spark: {{spark.master: spark://HOST:7077, spark.archives: {named}}}",
            "With spark-submit:",
            f"  {submit} run pipeline.yaml",
        ]
    )
    if not archive.has_kernel():
        output.note("the Rust kernel is not installed, so the archive has none: workers decode several times slower")
