"""The section `storage` of a definition: how object stores are reached where the platform's own way is not enough."""

from __future__ import annotations

from pydantic import Field

from changefeed.section import Section


class StorageSection(Section):
    """Endpoints and credentials of object stores.

    Every option may be left out. Then the property of Spark counts (`spark.hadoop.fs.s3a.…`, `fs.azure.…`, `fs.gs.…`), and
    without it the platform's own chain: variables of the environment, a profile, the role of the machine.
    """

    endpoint: str | None = Field(
        default=None,
        description="URL of the service, such as `https://minio.example:9000`; left out, that of the cloud.",
    )
    region: str | None = Field(default=None, description="Region of the bucket, on S3.")
    path_style: bool | None = Field(
        default=None,
        description="S3: whether the bucket is a part of the path (`https://host/bucket/…`) or of the host name. Default: "
        "`true`, unless Spark's property differs.",
    )
    anonymous: bool = Field(default=False, description="S3 and Azure: send requests without credentials.")

    access_key_id: str | None = Field(default=None, description="S3: id of the access key.")
    secret_access_key: str | None = Field(default=None, description="S3: the secret of the access key.")
    session_token: str | None = Field(default=None, description="S3: token of temporary credentials.")
    profile: str | None = Field(
        default=None,
        description="S3: profile in `~/.aws`. One with a role, single sign-on or a process needs "
        "`pip install 'changefeed[aws]'`.",
    )
    encryption: str | None = Field(
        default=None,
        pattern=r"^(AES256|aws:kms(:dsse)?)$",
        description="S3: encryption of new files: `AES256`, `aws:kms` or `aws:kms:dsse`.",
    )
    kms_key_id: str | None = Field(default=None, description="S3: the KMS key for `encryption`.")
    requester_pays: bool = Field(default=False, description="S3: pay for requests to other owners' buckets.")

    account_key: str | None = Field(default=None, description="Azure: shared key of the storage account.")
    sas_token: str | None = Field(default=None, description="Azure: shared access signature.")
    client_id: str | None = Field(default=None, description="Azure: id of the service principal or managed identity.")
    client_secret: str | None = Field(default=None, description="Azure: secret of the service principal.")
    tenant_id: str | None = Field(default=None, description="Azure: tenant of the service principal.")

    service_account: str | None = Field(
        default=None, description="Google: path of the service account's key file, on every machine."
    )
    service_account_key: str | None = Field(
        default=None, description="Google: content of a service account's key file."
    )

    ca_certificate: str | None = Field(
        default=None, description="Path of a PEM file with certificates to trust beside those of the system."
    )
    proxy: str | None = Field(default=None, description="URL of an HTTP proxy.")
    timeout: str = Field(
        default="60 seconds",
        description="Longest time for one request: `60 seconds`.",
        pattern=r"^[1-9]\d{0,5} (second|minute)s?$",
    )
