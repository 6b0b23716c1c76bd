"""Access to S3 and its look-alikes: options of a definition, properties of Hadoop's S3A, profiles in `~/.aws`."""

from __future__ import annotations

import configparser
import os
import re
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from changefeed.errors import ConfigError, MissingExtraError
from changefeed.redaction import remember
from changefeed.storage.access import Access, Keys, client_options, present

if TYPE_CHECKING:
    from obstore.store import S3Config

    from changefeed.storage.section import StorageSection

_PREFIX, _BUCKET = "fs.s3a.", "fs.s3a.bucket."
_CLOUD = re.compile(r"s3[.-](?:dualstack\.|fips\.)?(?:(?P<region>[a-z0-9-]+)\.)?amazonaws\.com(?:\.cn)?")
_ALGORITHMS = {"AES256": "AES256", "SSE-KMS": "aws:kms", "DSSE-KMS": "aws:kms:dsse", "SSE-C": "sse-c"}
_ANONYMOUS = "AnonymousAWSCredentialsProvider"
# Classes whose way the platform's own chain goes, or that read the properties that are honoured here.
_PROVIDERS = re.compile(
    rf"{_ANONYMOUS}|SimpleAWSCredentialsProvider|TemporaryAWSCredentialsProvider|EnvironmentVariableCredentialsProvider|"
    r"DefaultCredentialsProvider|DefaultAWSCredentialsProviderChain|IAMInstanceCredentialsProvider|"
    r"InstanceProfileCredentialsProvider|ContainerCredentialsProvider|EC2ContainerCredentialsProviderWrapper|"
    r"WebIdentityTokenCredentialsProvider|WebIdentityTokenFileCredentialsProvider|ProfileCredentialsProvider|"
    r"ProfileAWSCredentialsProvider"
)
_ENVIRONMENT = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")


def access(bucket: str, section: StorageSection, hadoop: Mapping[str, str]) -> Access:
    """Returns the access to a bucket.

    Raises:
        ConfigError: the properties name a class that only Spark could load.
    """
    s3a = _properties(bucket, hadoop)
    anonymous = section.anonymous or _is_anonymous(bucket, s3a, section)
    keys = None if anonymous else _keys(section, s3a)
    endpoint, region = _endpoint(section, s3a)
    path_style = section.path_style if section.path_style is not None else _path_style(endpoint, s3a)
    if endpoint is not None and not path_style:
        parts = urlsplit(endpoint)
        endpoint = f"{parts.scheme}://{bucket}.{parts.netloc}{parts.path}"
    encryption = section.encryption or _ALGORITHMS.get(
        _first(s3a, "encryption.algorithm", "server-side-encryption-algorithm")
    )
    key = section.kms_key_id or _first(s3a, "encryption.key", "server-side-encryption.key")
    config = {
        "aws_endpoint_url_s3": endpoint,
        "region": region,
        "virtual_hosted_style_request": not path_style,
        "skip_signature": anonymous,
        "server_side_encryption": encryption,
        "sse_customer_key_base64" if encryption == "sse-c" else "sse_kms_key_id": key if encryption else None,
        "request_payer": section.requester_pays or s3a.get("requester.pays.enabled") == "true",
    }
    client = client_options(section, endpoint or next((os.environ[n] for n in _ENVIRONMENT if os.environ.get(n)), None))
    if section.proxy is None and (host := s3a.get("proxy.host")):
        client["proxy_url"] = f"http://{host}:{s3a.get('proxy.port', '80')}"
    profile = None if anonymous or keys else section.profile
    return Access("s3", bucket, present(config), present(client), keys, profile)


def _properties(bucket: str, hadoop: Mapping[str, str]) -> dict[str, str]:
    """Returns the properties of S3A without their prefix; those of the bucket go first."""
    own = f"{_BUCKET}{bucket}."
    shared = {
        n.removeprefix(_PREFIX): v for n, v in hadoop.items() if n.startswith(_PREFIX) and not n.startswith(_BUCKET)
    }
    return shared | {name.removeprefix(own): value for name, value in hadoop.items() if name.startswith(own)}


def _first(s3a: Mapping[str, str], *names: str) -> str:
    return next((s3a[name] for name in names if s3a.get(name)), "")


def _is_anonymous(bucket: str, s3a: Mapping[str, str], section: StorageSection) -> bool:
    """Whether the properties ask for requests without credentials; checks the classes that they name."""
    if section.access_key_id or section.profile:
        return False
    classes = [name.strip() for name in s3a.get("aws.credentials.provider", "").split(",") if name.strip()]
    for name in classes:
        if _PROVIDERS.fullmatch(name.rpartition(".")[2]) is None:
            raise ConfigError(
                f"fs.s3a.aws.credentials.provider of bucket {bucket!r} names {name}, a class that changefeed cannot load outside "
                "of Spark: set storage.access-key-id and storage.secret-access-key, or storage.profile, or leave the property "
                "out and use the role of the machine"
            )
    if s3a.get("security.credential.provider.path") and not s3a.get("access.key"):
        raise ConfigError(
            f"fs.s3a.security.credential.provider.path of bucket {bucket!r} names a key store of Hadoop, which changefeed cannot "
            "read outside of Spark: set storage.access-key-id and storage.secret-access-key, or use the role of the machine"
        )
    return len(classes) == 1 and classes[0].endswith(_ANONYMOUS)


def _keys(section: StorageSection, s3a: Mapping[str, str]) -> Keys | None:
    if section.access_key_id or section.secret_access_key:
        if not (section.access_key_id and section.secret_access_key):
            raise ConfigError(
                "storage.access-key-id and storage.secret-access-key belong together: one of them is missing"
            )
        return Keys(section.access_key_id, section.secret_access_key, section.session_token)
    if section.profile is None and s3a.get("access.key") and s3a.get("secret.key"):
        return Keys(s3a["access.key"], s3a["secret.key"], s3a.get("session.token") or None)
    return None


def _endpoint(section: StorageSection, s3a: Mapping[str, str]) -> tuple[str | None, str | None]:
    """Returns the URL of a service that is not Amazon's own, and the region."""
    region = section.region or s3a.get("endpoint.region") or None
    endpoint = section.endpoint or s3a.get("endpoint") or None
    if endpoint is None:
        return None, region
    if "://" not in endpoint:
        endpoint = f"{'http' if s3a.get('connection.ssl.enabled') == 'false' else 'https'}://{endpoint}"
    cloud = _CLOUD.fullmatch(urlsplit(endpoint).netloc)
    if cloud is None:
        return endpoint.rstrip("/"), region
    return None, region or cloud["region"]


def _path_style(endpoint: str | None, s3a: Mapping[str, str]) -> bool:
    """Whether the bucket is a part of the path: for S3A it is a part of the host name, unless the host is an address."""
    style = s3a.get("path.style.access")
    if endpoint is None or not s3a.get("endpoint") or style == "true":
        return style != "false" or endpoint is None
    host = urlsplit(endpoint).hostname or ""
    try:
        ip_address(host)
    except ValueError:
        return host == "localhost"
    return True


# What each process adds from its own machine.


def local_options(access: Access) -> tuple[S3Config, Any]:
    """Returns options and a provider of credentials from this machine; None for the chain of variables and roles.

    Raises:
        ConfigError: the profile does not exist.
        MissingExtraError: the profile needs boto3.
    """
    if access.keys is not None:
        return {}, _Fixed(access.keys)
    has_variables = os.environ.get("AWS_ACCESS_KEY_ID") or os.environ.get("AWS_WEB_IDENTITY_TOKEN_FILE")
    if dict(access.config).get("skip_signature") or (access.profile is None and has_variables):
        return {}, None
    name = access.profile or os.environ.get("AWS_PROFILE")
    profile = _profile(name or "default")
    if profile is None:
        if name is not None:
            raise ConfigError(f"profile {name!r} is neither in {_file('config')} nor in {_file('credentials')}")
        return {}, None
    explicit = dict(access.config)
    options: S3Config = {}
    if "region" not in explicit and "region" in profile:
        options["region"] = profile["region"]
    if "aws_endpoint_url_s3" not in explicit and "endpoint_url" in profile:
        options["aws_endpoint_url_s3"] = profile["endpoint_url"]
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile and "role_arn" not in profile:
        secret = profile["aws_secret_access_key"]
        remember("secret", secret)
        return options, _Fixed(Keys(profile["aws_access_key_id"], secret, profile.get("aws_session_token")))
    if {"role_arn", "sso_session", "sso_account_id", "credential_process"} & profile.keys():
        return options, _by_boto3(name)
    return options, None


class _Fixed:
    """Provides keys that do not change, without a look at the environment."""

    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    def __call__(self) -> Any:
        keys = self._keys
        return {"access_key_id": keys.id, "secret_access_key": keys.secret, "token": keys.session, "expires_at": None}


def _by_boto3(name: str | None) -> Any:
    try:
        import boto3
        from obstore.auth.boto3 import Boto3CredentialProvider
    except ImportError as error:
        raise MissingExtraError(
            f"Profile {name or 'default'!r}, with a role, single sign-on or a process,", "aws"
        ) from error
    return Boto3CredentialProvider(boto3.Session(profile_name=name))


def _file(kind: str) -> Path:
    variable = {"config": "AWS_CONFIG_FILE", "credentials": "AWS_SHARED_CREDENTIALS_FILE"}[kind]
    return Path(os.environ.get(variable) or f"~/.aws/{kind}").expanduser()


def _profile(name: str) -> dict[str, str] | None:
    """Returns the settings of a profile from both files; None if it is in neither."""
    settings: dict[str, str] | None = None
    for kind in ("config", "credentials"):
        parser = configparser.RawConfigParser()
        try:
            parser.read(_file(kind), encoding="utf-8")
        except (configparser.Error, UnicodeDecodeError) as error:
            raise ConfigError(f"{_file(kind)} cannot be read: {error}") from error
        section = name if kind == "credentials" or name == "default" else f"profile {name}"
        if parser.has_section(section):
            settings = (settings or {}) | dict(parser[section])
    return settings
