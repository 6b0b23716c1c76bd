"""`changefeed monitor`: a web page over pipelines."""

from __future__ import annotations

import click

from changefeed.cli.options import common, example
from changefeed.cli.output import Output, many
from changefeed.redaction import remember


@click.command(
    epilog=example(
        "changefeed monitor pipeline.yaml",
        "changefeed monitor /srv/pipelines s3://lake/orders --port 8464",
        "CHANGEFEED_MONITOR_TOKEN=… changefeed monitor /srv --host 0.0.0.0 --tls-cert page.pem --tls-key page.key",
    )
)
@click.argument("places", metavar="[FOLDER|PIPELINE.yaml]…", nargs=-1)
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to serve the page at.")
@click.option(
    "--port", type=click.IntRange(0, 65535), default=8464, show_default=True, help="Its port; 0: any that is free."
)
@click.option(
    "--token",
    envvar="CHANGEFEED_MONITOR_TOKEN",
    help="Token that browsers and programs need; better set it in CHANGEFEED_MONITOR_TOKEN, where other users do not see it.",
)
@click.option("--tls-cert", metavar="FILE", help="Certificate in PEM; then the page is served over HTTPS.")
@click.option("--tls-key", metavar="FILE", help="Its private key in PEM.")
@click.option(
    "--allow-host",
    "names",
    metavar="NAME",
    multiple=True,
    help="Another name of the page, as that of a proxy; repeatable.",
)
@click.option("--actions", is_flag=True, help="Allow to replay dead letters from the page.")
@common
@click.pass_obj
def monitor(
    output: Output,
    places: tuple[str, ...],
    host: str,
    port: int,
    token: str | None,  # prose: HTTP's word for it
    tls_cert: str | None,
    tls_key: str | None,
    names: tuple[str, ...],
    actions: bool,
) -> None:
    """Serve a web page over pipelines: their state, lag, cuts, steps, tables and dead letters.

    FOLDER contains definitions, or the folders of pipelines (`_changefeed`), at most four levels deep, on a local disk or in an
    object store; without one, the current folder. Everything comes from the pipelines' files, so no run has to be alive.

    Without --actions the page only shows. By default it is served to this machine alone; an address that other machines
    reach needs a token.
    """
    from changefeed.monitor.serving import Address, serve

    if token is not None:
        remember("token", token)
    address = Address(host, port, token, names, tls_cert, tls_key)

    def started(url: str, count: int) -> None:
        if address.is_plain:
            output.note(
                "warning: without --tls-cert the token crosses the network in plain text, unless a proxy adds TLS"
            )
        if output.json:
            output.document({"url": url, "pipelines": count})
        else:
            output.note(f"{many(count, 'pipeline')} at {url}, until Ctrl-C")

    serve(places or (".",), address, started, actions=actions)
