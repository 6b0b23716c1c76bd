"""Translates the errors of object stores to errors of changefeed: by the answer's status, and the code in its body.

    <Error><Code>InvalidAccessKeyId</Code><Message>The AWS Access Key Id you provided does not exist in our records.</Message>…

S3, Azure and Google answer in this form; the codes below are theirs. Answers to HEAD have no body.
"""

from __future__ import annotations

import re
from typing import Literal

from changefeed.errors import AccessError, ChangefeedError, ConfigError, SinkError
from changefeed.redaction import redact
from changefeed.storage.access import Access

Deed = Literal["read", "list", "write", "delete"]

_STATUS = re.compile(r"status code: (\d{3})")
_CODE, _MESSAGE = re.compile(r"<Code>([^<]+)</Code>"), re.compile(r"<Message>([^<]+)</Message>")
_OF_FILE = re.compile(r"request failed for key (?P<key>.+): (?P<message>.*?) \(code: (?P<code>\w+)\)")  # one of several
_LOCATION = re.compile(r"Object at location .*? not found: ")
_METADATA = re.compile(r"169\.254\.169\.254|169\.254\.170\.2|metadata\.google\.internal|\[fd00:ec2::254\]")

_NO_BUCKET = {"NoSuchBucket", "ContainerNotFound", "InvalidBucketName", "InvalidResourceName"}
_CREDENTIALS = {
    "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken", "TokenRefreshRequired", "AuthFailure",
    "InvalidSecurity", "AuthenticationFailed", "InvalidAuthenticationInfo", "NoAuthenticationInformation", "InvalidClientTokenId",
    "UnrecognizedClientException", "AuthorizationFailure",
}  # fmt: skip
_REGION = {
    "PermanentRedirect",
    "AuthorizationHeaderMalformed",
    "IllegalLocationConstraintException",
    "TemporaryRedirect",
}
_BUSY = {
    "SlowDown",
    "RequestTimeout",
    "InternalError",
    "ServiceUnavailable",
    "ServerBusy",
    "OperationAborted",
    "Throttling",
    "ConditionalRequestConflict",
}
_DENIED = {"AccessDenied", "AllAccessDisabled", "AuthorizationPermissionMismatch", "InsufficientAccountPermissions"}
_BUSY_STATUS = {408, 425, 429, 500, 502, 503, 504}
_RIGHTS: dict[Deed, str] = {
    "read": "s3:GetObject, on Azure Storage Blob Data Reader, on Google storage.objects.get",
    "list": "s3:ListBucket, on Azure Storage Blob Data Reader, on Google storage.objects.list",
    "write": "s3:PutObject, on Azure Storage Blob Data Contributor, on Google storage.objects.create",
    "delete": "s3:DeleteObject, on Azure Storage Blob Data Contributor, on Google storage.objects.delete",
}
_KEYS = {
    "s3": "storage.access-key-id and storage.secret-access-key, fs.s3a.access.key and fs.s3a.secret.key, AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, a profile, or the role of the machine",
    "azure": "storage.account-key or storage.sas-token, fs.azure.account.key, AZURE_STORAGE_ACCOUNT_KEY, a service principal, or "
    "the managed identity of the machine",
    "google": "storage.service-account, fs.gs.auth.service.account.json.keyfile, GOOGLE_APPLICATION_CREDENTIALS, or the service "
    "account of the machine",
}


class NoCredentialsError(AccessError):
    """This process has no credentials for an object store. A Spark session may have, from its own configuration."""


def code_of(error: Exception) -> str:
    """Returns the code in the body of an answer; empty if it has none."""
    match = _CODE.search(str(error)) or _OF_FILE.search(str(error))
    return match[match.lastindex or 1] if match else ""


def lacks_bucket(error: Exception) -> bool:
    """Whether an answer "not found" is about the bucket, not about the file."""
    return code_of(error) in _NO_BUCKET


def failure(error: Exception, path: str, access: Access, deed: Deed) -> ChangefeedError:
    """Returns the error of changefeed for an error of `obstore`.

    Args:
        error: the error.
        path: the file or folder.
        access: the bucket.
        deed: the request.
    """
    text = str(error).partition("\n\nDebug source:")[0]
    code = code_of(error)
    match = _STATUS.search(text)
    status = int(match[1]) if match else 0
    bucket = f"container {access.bucket!r}" if access.service == "azure" else f"bucket {access.bucket!r}"
    service = f"{bucket} at {access.endpoint}" if access.endpoint else bucket
    reason = _reason(text, code, status)
    if code in _NO_BUCKET:
        return ConfigError(f"{path}: there is no {service}. Correct the path, or create it")
    if code in _REGION or "redirect without LOCATION" in text:
        return ConfigError(
            f"{path}: {service} is in another region ({reason}). Set storage.region, fs.s3a.endpoint.region or AWS_REGION"
        )
    if code == "RequestTimeTooSkewed":
        return ConfigError(f"{path}: {service} refuses requests because the clock of this machine is wrong. Correct it")
    if _METADATA.search(text):
        return NoCredentialsError(
            f"{path}: there are no credentials for {service}: the definition, the environment and the profile have none, and "
            f"this machine has no role. Give them by {_KEYS[access.service]}"
        )
    if code in _CREDENTIALS or status == 401:
        return AccessError(f"{path}: {service} refuses the credentials ({reason}). Correct {_KEYS[access.service]}")
    if status == 403 or code in _DENIED:
        return AccessError(
            f"{path}: these credentials may not {deed} in {service} ({reason}). Correct them, or give their user the right "
            f"({_RIGHTS[deed]})"
        )
    transient = code in _BUSY or status in _BUSY_STATUS or not (status or code)
    way_out = ". Run again" if transient else ""
    return SinkError(f"{path}: {service} did not {deed}: {reason}{way_out}", transient=transient)


def _reason(text: str, code: str, status: int) -> str:
    """Returns the cause in one line: the code and message of an answer, or the HTTP client's own."""
    message = _MESSAGE.search(text)
    if refused := _OF_FILE.search(text):
        return redact(f"{code}: {refused['message']}: {refused['key']}")
    if code:
        return redact(f"{code}: {' '.join(message[1].split()).rstrip('.')}" if message else code)
    if status:
        return f"HTTP status {status}"
    return redact(" ".join(_LOCATION.sub("", text).split()).rpartition(" - ")[2][:300])
