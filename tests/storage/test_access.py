"""Endpoints and credentials: a definition's section, Spark's properties, the environment, profiles; and users without rights."""

from __future__ import annotations

import multiprocessing
import pickle
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from changefeed.errors import AccessError, ConfigError, MissingExtraError
from changefeed.storage.access import Access
from changefeed.storage.base import Folder
from changefeed.storage.folders import access_to, folder_at
from changefeed.storage.local import LocalFolder
from changefeed.storage.objects import ObjectFolder
from changefeed.storage.section import StorageSection
from tests.services.fault_proxy import FaultProxy
from tests.services.s3 import S3Server

if TYPE_CHECKING:
    from multiprocessing.queues import Queue


def _section(**options: Any) -> StorageSection:
    return StorageSection.model_validate({name.replace("_", "-"): value for name, value in options.items()})


def _s3a(**properties: str) -> dict[str, str]:
    return {f"spark.hadoop.fs.s3a.{name.replace('_', '.')}": value for name, value in properties.items()}


def _config(url: str, section: StorageSection | None = None, spark: dict[str, str] | None = None) -> dict[str, Any]:
    return dict(access_to(url, section, spark)[0].config)


# URLs.


@pytest.mark.parametrize(
    "url, service, bucket, root",
    [
        ("s3://lake/a/b", "s3", "lake", "a/b"),
        ("s3a://lake", "s3", "lake", ""),
        ("s3n://lake//a//b/", "s3", "lake", "a/b"),
        ("s3://lake/a#b?c d", "s3", "lake", "a#b?c d"),
        ("gs://lake/a", "google", "lake", "a"),
        ("abfss://box@account.dfs.core.windows.net/a/b", "azure", "box", "a/b"),
    ],
)
def test_urls(url: str, service: str, bucket: str, root: str) -> None:
    folder = folder_at(url)
    assert isinstance(folder, ObjectFolder)
    assert (folder.access.service, folder.access.bucket, folder.root) == (service, bucket, root)


def test_what_is_not_in_an_object_store(tmp_path: Path) -> None:
    assert folder_at(str(tmp_path)) == folder_at(f"file://{tmp_path}") == LocalFolder(str(tmp_path))
    assert folder_at("hdfs://name/a") is None
    for url in ("s3:///a", "gs://", "abfss://account.dfs.core.windows.net/a", "abfss://box@account/a"):
        with pytest.raises(ConfigError, match=r"has no (bucket|account): write "):
            folder_at(url)


@pytest.mark.parametrize(
    "url", ["s3a://id:secret@lake/x", "s3://id@lake/x", "s3a://id:se/cret@lake/x", "gs://a@lake/x"]
)
def test_keys_in_a_url_are_refused_and_not_shown(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        folder_at(url)
    scheme = url.partition(":")[0]
    assert str(caught.value) == (
        f"a URL of {scheme}:// has more than the name of a bucket: write {scheme}://bucket/folder, and keys in the section "
        "`storage`"
    )


# Options.

_HOSTED = {"virtual_hosted_style_request": True}


def test_spark_properties_of_s3a() -> None:
    spark = _s3a(
        access_key="id", secret_key="sec", session_token="ses", endpoint="minio:9000", path_style_access="true"
    )
    spark |= {"spark.hadoop.fs.s3a.connection.ssl.enabled": "false", "spark.hadoop.fs.s3a.endpoint.region": "r-1"}
    access, _ = access_to("s3a://lake/x", None, spark)
    assert dict(access.config) == {"aws_endpoint_url_s3": "http://minio:9000", "region": "r-1"}
    assert dict(access.client) == {"allow_http": True, "connect_timeout": "5 seconds", "timeout": "60 seconds"}
    assert access.keys is not None
    assert (access.keys.id, access.keys.secret, access.keys.session) == ("id", "sec", "ses")
    for secret in ("sec", "ses"):
        assert f"'{secret}'" not in repr(access)


def test_the_properties_of_a_bucket_go_first() -> None:
    spark = _s3a(access_key="id", secret_key="sec") | {
        "spark.hadoop.fs.s3a.bucket.lake.access.key": "own",
        "spark.hadoop.fs.s3a.bucket.lake.secret.key": "own-secret",
        "spark.hadoop.fs.s3a.bucket.other.endpoint": "http://other",
    }
    keys = [access_to(f"s3a://{bucket}/x", None, spark)[0].keys for bucket in ("lake", "other")]
    assert [key and key.id for key in keys] == ["own", "id"]
    assert _config("s3a://other/x", None, spark)["aws_endpoint_url_s3"] == "http://other.other"


@pytest.mark.parametrize(
    "section, s3a, expected",
    [
        ({}, {}, {}),
        ({"endpoint": "http://h:1"}, {}, {"aws_endpoint_url_s3": "http://h:1"}),
        ({"endpoint": "http://h:1", "path_style": False}, {}, {"aws_endpoint_url_s3": "http://lake.h:1", **_HOSTED}),
        ({}, {"endpoint": "https://h"}, {"aws_endpoint_url_s3": "https://lake.h", **_HOSTED}),
        ({}, {"endpoint": "https://127.0.0.1:9"}, {"aws_endpoint_url_s3": "https://127.0.0.1:9"}),
        ({}, {"endpoint": "localhost:9"}, {"aws_endpoint_url_s3": "https://localhost:9"}),
        ({}, {"endpoint": "s3.eu-west-3.amazonaws.com"}, {"region": "eu-west-3"}),
        ({}, {"endpoint": "s3.amazonaws.com"}, {}),
        ({"region": "r-2"}, {"endpoint.region": "r-1"}, {"region": "r-2"}),
        ({"anonymous": True}, {"access.key": "a", "secret.key": "b"}, {"skip_signature": True}),
        ({}, {"aws.credentials.provider": "org.apache.hadoop.fs.s3a.AnonymousAWSCredentialsProvider"}, {"skip_signature": True}),
        ({"encryption": "aws:kms", "kms_key_id": "k"}, {}, {"server_side_encryption": "aws:kms", "sse_kms_key_id": "k"}),
        (
            {}, {"encryption.algorithm": "SSE-C", "encryption.key": "k"},
            {"server_side_encryption": "sse-c", "sse_customer_key_base64": "k"},
        ),
        ({}, {"server-side-encryption-algorithm": "AES256"}, {"server_side_encryption": "AES256"}),
        ({}, {"requester.pays.enabled": "true"}, {"request_payer": True}),
    ],
)  # fmt: skip
def test_options_of_s3(section: dict[str, Any], s3a: dict[str, str], expected: dict[str, Any]) -> None:
    spark = {f"spark.hadoop.fs.s3a.{name}": value for name, value in s3a.items()}
    assert _config("s3a://lake/x", _section(**section), spark) == expected


@pytest.mark.parametrize(
    "section, s3a, message",
    [
        (
            {}, {"aws.credentials.provider": "com.example.Vault"},
            "fs.s3a.aws.credentials.provider of bucket 'lake' names com.example.Vault, a class that changefeed cannot load "
            "outside of Spark: set storage.access-key-id and storage.secret-access-key, or storage.profile, or leave the "
            "property out and use the role of the machine",
        ),
        (
            {}, {"security.credential.provider.path": "jceks://file/x"},
            "fs.s3a.security.credential.provider.path of bucket 'lake' names a key store of Hadoop, which changefeed cannot read "
            "outside of Spark: set storage.access-key-id and storage.secret-access-key, or use the role of the machine",
        ),
        (
            {"access_key_id": "id"}, {},
            "storage.access-key-id and storage.secret-access-key belong together: one of them is missing",
        ),
        (
            {"ca_certificate": "/no/such.pem"}, {},
            "storage.ca-certificate /no/such.pem cannot be read: [Errno 2] No such file or directory: '/no/such.pem'",
        ),
    ],
)  # fmt: skip
def test_options_that_cannot_be_honoured(section: dict[str, Any], s3a: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        folder_at("s3a://lake/x", _section(**section), {f"spark.hadoop.fs.s3a.{n}": v for n, v in s3a.items()})
    assert str(caught.value) == message


_ABFSS = "abfss://box@acc.dfs.core.windows.net/x"


@pytest.mark.parametrize(
    "url, section, azure, expected",
    [
        (_ABFSS, {}, {}, {}),
        (_ABFSS, {"account_key": "k"}, {"account.key": "other"}, {"account_key": "k"}),
        (_ABFSS, {}, {"account.key.acc.dfs.core.windows.net": "k", "account.key": "other"}, {"account_key": "k"}),
        (_ABFSS, {}, {"account.auth.type": "SAS", "sas.fixed.token.acc.dfs.core.windows.net": "sv=1"}, {"sas_token": "sv=1"}),
        (
            _ABFSS, {},
            {
                "account.auth.type.acc.dfs.core.windows.net": "OAuth",
                "account.oauth2.client.id": "id",
                "account.oauth2.client.secret": "sec",
                "account.oauth2.client.endpoint": "https://login.microsoftonline.com/tenant-1/oauth2/token",
            },
            {"client_id": "id", "client_secret": "sec", "tenant_id": "tenant-1"},
        ),
        (
            "abfss://box@acc.dfs.core.chinacloudapi.cn/x", {}, {}, {"endpoint": "https://acc.blob.core.chinacloudapi.cn"},
        ),
        (_ABFSS, {"anonymous": True}, {"account.key": "k"}, {"skip_signature": True}),
    ],
)  # fmt: skip
def test_options_of_azure(url: str, section: dict[str, Any], azure: dict[str, str], expected: dict[str, Any]) -> None:
    spark = {f"spark.hadoop.fs.azure.{name}": value for name, value in azure.items()}
    assert _config(url, _section(**section), spark) == {"account_name": "acc", **expected}


@pytest.mark.parametrize(
    "section, spark, expected",
    [
        ({}, {}, {}),
        (
            {"service_account": "/a.json"},
            {"fs.gs.auth.service.account.json.keyfile": "/b.json"},
            {"service_account": "/a.json"},
        ),
        ({}, {"fs.gs.auth.service.account.json.keyfile": "/b.json"}, {"service_account": "/b.json"}),
        ({}, {"google.cloud.auth.service.account.json.keyfile": "/b.json"}, {"service_account": "/b.json"}),
        ({}, {"fs.gs.auth.type": "UNAUTHENTICATED"}, {"skip_signature": True}),
        ({}, {"fs.gs.storage.root.url": "http://h"}, {"base_url": "http://h"}),
    ],
)
def test_options_of_google(section: dict[str, Any], spark: dict[str, str], expected: dict[str, Any]) -> None:
    assert _config("gs://lake/x", _section(**section), {f"spark.hadoop.{n}": v for n, v in spark.items()}) == expected


def test_custom_credentials_of_azure_and_google_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"fs\.azure\.account\.auth\.type of acc\.dfs.* is Custom, a class that"):
        folder_at(_ABFSS, None, {"spark.hadoop.fs.azure.account.auth.type": "Custom"})
    with pytest.raises(
        ConfigError, match=r"fs\.gs\.auth\.type is USER_CREDENTIALS, which changefeed does not support outside"
    ):
        folder_at("gs://lake/x", None, {"spark.hadoop.fs.gs.auth.type": "USER_CREDENTIALS"})


# The platform's own chain.

_Start = Callable[[dict[str, str]], Folder]


@pytest.fixture
def start(s3: S3Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[_Start, FaultProxy]]:
    """Opens a folder that has its endpoint, a proxy, from the environment."""
    from changefeed.storage import objects

    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "credentials"))
    objects._client.cache_clear()
    with FaultProxy(s3.url) as proxy:

        def opened(environ: dict[str, str]) -> Folder:
            for name, value in {"AWS_ENDPOINT_URL": proxy.url, "AWS_REGION": "us-east-1", **environ}.items():
                monkeypatch.setenv(name, value)
            folder = folder_at(f"s3://lake/{tmp_path.name}")
            assert folder is not None
            return folder

        yield opened, proxy
    objects._client.cache_clear()


def _key_id(proxy: FaultProxy) -> str:
    """The id of the key of the last request."""
    return proxy.requests[-1].headers["authorization"].partition("Credential=")[2].partition("/")[0]


def test_keys_of_the_environment(start: tuple[_Start, FaultProxy]) -> None:
    opened, proxy = start
    folder = opened({"AWS_ACCESS_KEY_ID": "from-environment", "AWS_SECRET_ACCESS_KEY": "x", "AWS_SESSION_TOKEN": "ses"})
    assert folder.create("a", b"1")
    assert (_key_id(proxy), proxy.requests[-1].headers["x-amz-security-token"]) == ("from-environment", "ses")


@pytest.mark.parametrize("environ, expected", [({}, "of-default"), ({"AWS_PROFILE": "work"}, "of-work")])
def test_keys_of_a_profile(
    start: tuple[_Start, FaultProxy], tmp_path: Path, environ: dict[str, str], expected: str
) -> None:
    (tmp_path / "credentials").write_text(
        "[default]\naws_access_key_id = of-default\naws_secret_access_key = a%b\n"
        "[work]\naws_access_key_id = of-work\naws_secret_access_key = x\n"
    )
    (tmp_path / "config").write_text("[default]\nregion = eu-west-1\n[profile work]\nregion = eu-west-2\n")
    opened, proxy = start
    assert opened(environ).create("a", b"1")
    assert _key_id(proxy) == expected


def test_keys_of_a_definition_are_not_mixed_with_a_token_of_the_environment(
    start: tuple[_Start, FaultProxy], s3: S3Server
) -> None:
    opened, proxy = start
    opened({"AWS_ACCESS_KEY_ID": "x", "AWS_SECRET_ACCESS_KEY": "x", "AWS_SESSION_TOKEN": "of another key"})
    folder = folder_at("s3://lake/mixed", s3.storage(proxy.url))
    assert folder is not None
    folder.put("a", b"1")
    assert (_key_id(proxy), proxy.requests[-1].headers.get("x-amz-security-token")) == (s3.keys[0], None)


def test_a_profile_with_a_process(start: tuple[_Start, FaultProxy], tmp_path: Path) -> None:
    keys = '{"Version": 1, "AccessKeyId": "of-process", "SecretAccessKey": "x", "SessionToken": "ses"}'
    (tmp_path / "keys.json").write_text(keys)
    (tmp_path / "config").write_text(f"[profile p]\ncredential_process = cat {tmp_path}/keys.json\n")
    opened, proxy = start
    assert opened({"AWS_PROFILE": "p"}).create("a", b"1")
    assert (_key_id(proxy), proxy.requests[-1].headers["x-amz-security-token"]) == ("of-process", "ses")


def test_profiles_that_cannot_be_used(
    start: tuple[_Start, FaultProxy], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened, _ = start
    with pytest.raises(ConfigError, match=r"^profile 'none' is neither in .*/config nor in .*/credentials$"):
        opened({"AWS_PROFILE": "none"}).read("a")
    (tmp_path / "config").write_text("[profile p]\nsso_session = s\n")
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(MissingExtraError) as caught:
        opened({"AWS_PROFILE": "p"}).read("a")
    assert str(caught.value) == (
        "Profile 'p', with a role, single sign-on or a process, needs packages that are not installed: pip install "
        "'changefeed[aws]'"
    )


def test_a_machine_without_credentials(start: tuple[_Start, FaultProxy], monkeypatch: pytest.MonkeyPatch) -> None:
    from changefeed.storage import objects

    monkeypatch.setattr(objects, "_RETRIES", 0)
    opened, _ = start
    with pytest.raises(
        AccessError, match=r"there are no credentials for bucket 'lake': the definition, the environment and"
    ):
        opened({"AWS_METADATA_ENDPOINT": "http://169.254.169.254"}).read("a")


# Users without rights, on a server that checks keys and policies.


def test_a_wrong_key_and_a_user_who_may_not_delete(tmp_path: Path) -> None:
    with S3Server(tmp_path, rights=["s3:GetObject", "s3:ListBucket", "s3:PutObject"]) as s3:
        folder = folder_at("s3://lake/folder", s3.storage())
        assert folder is not None
        folder.check_create()
        assert (folder.create("a", b"1"), folder.create("a", b"2"), folder.read("a"), folder.names()) == (
            True,
            False,
            b"1",
            ["a"],
        )
        for names in (["a"], ["a", "b"]):
            with pytest.raises(AccessError) as caught:
                folder.delete(names)
            assert str(caught.value) == (
                f"s3://lake/folder: these credentials may not delete in bucket 'lake' at {s3.url} (AccessDenied: Access Denied: "
                "folder/a). Correct them, or give their user the right (s3:DeleteObject, on Azure Storage Blob Data Contributor, "
                "on Google storage.objects.delete)"
            )
        assert folder.read("a") == b"1"
        for wrong in ({"secret_access_key": "wrong"}, {"access_key_id": "AKIAUNKNOWN"}):
            refused = folder_at("s3://lake/folder", s3.storage().model_copy(update=wrong))
            assert refused is not None
            for call in (
                lambda r=refused: r.create("b", b""),
                lambda r=refused: r.read("a"),
                refused.names,
                refused.check_create,
            ):
                with pytest.raises(AccessError, match=r"bucket 'lake' at .* refuses the credentials \(") as caught:
                    call()
                assert s3.keys[1] not in str(caught.value)


# Processes.


def _create(folder: bytes, number: int, ready: Any, results: Queue[Any]) -> None:
    """Runs in a process of its own: creates each of 50 files six times."""
    opened: Folder = pickle.loads(folder)
    ready.wait(120)
    names = [f"log/{n:03}" for n in range(50) for _ in range(6)]
    with ThreadPoolExecutor(6) as pool:
        created = list(pool.map(lambda name: opened.create(name, f"{number}".encode()), names))
    results.put((number, [name for name, is_new in zip(names, created, strict=True) if is_new]))


@pytest.mark.parametrize("kind", ["local", "s3"])
def test_one_of_two_processes_with_six_threads_creates_a_file(
    kind: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    folder: Folder = LocalFolder(str(tmp_path))
    if kind == "s3":
        server = request.getfixturevalue("s3")
        on_s3 = folder_at(f"s3://lake/{tmp_path.name}-processes", server.storage())
        assert on_s3 is not None
        folder = on_s3
    folder.names()  # this process has a client, too
    context = multiprocessing.get_context("spawn")
    ready, results = context.Barrier(2), context.Queue()
    processes = [
        context.Process(target=_create, args=(pickle.dumps(folder), number, ready, results)) for number in range(2)
    ]
    for process in processes:
        process.start()
    won = dict(results.get(timeout=300) for _ in processes)
    for process in processes:
        process.join()
    assert sorted(name for names in won.values() for name in names) == [f"log/{n:03}" for n in range(50)]
    assert all(folder.read(name) == str(number).encode() for number, names in won.items() for name in names)


def test_an_access_is_a_value() -> None:
    access = access_to("s3a://lake/x", _section(access_key_id="id", secret_access_key="sec"))[0]
    copy: Access = pickle.loads(pickle.dumps(access))
    assert (copy, hash(copy)) == (access, hash(access))
