"""`secret://aws/NAME[#VERSION-or-STAGE][?key=json.field]`: AWS Secrets Manager, with boto3."""

import base64
import json
import re
from collections.abc import Mapping
from typing import Any, Final, cast

from openclaw.core.errors import MissingExtra
from openclaw.secrets.backends.support import BlockingCalls, field_of
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure

_VERSION_ID: Final = re.compile(r"[0-9A-Fa-f-]{32,64}")
_REASONS: Final = {
    "ResourceNotFoundException": "there is no such secret or version",
    "AccessDeniedException": "these AWS credentials may not read it",
    "UnrecognizedClientException": "the AWS credentials are not valid",
    "InvalidSignatureException": "the AWS credentials are not valid",
    "ExpiredTokenException": "the AWS credentials have expired",
    "InvalidRequestException": "the secret is being deleted, or has no value",
    "DecryptionFailure": "AWS cannot decrypt it with its KMS key",
    "ThrottlingException": "too many requests",
}
_NO_CREDENTIALS: Final = frozenset(
    ("NoCredentialsError", "PartialCredentialsError", "CredentialRetrievalError")
)
_CONNECT_SECONDS: Final = 5


class AwsBackend:
    """Reads secrets as the AWS environment, profile and region say."""

    def __init__(self, options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._options = options
        self._environ = environ
        self._calls = BlockingCalls("AWS")

    async def read(self, ref: SecretRef) -> str:
        """The secret's text; a binary one that is no text comes as base64."""
        answer = await self._calls.run(lambda: self._ask(ref))
        value = _text(answer)
        key = ref.option("key")
        if key is not None:
            try:
                document = json.loads(value)
            except ValueError:
                raise BackendFailure("the secret is not JSON, so it has no fields") from None
            value = field_of(document, key, what="the secret")
        if not value:
            raise BackendFailure("the secret is empty")
        return value

    def _ask(self, ref: SecretRef) -> Mapping[str, Any]:
        try:
            from botocore.exceptions import (  # pyright: ignore[reportMissingTypeStubs] - untyped
                BotoCoreError,
                ClientError,
            )
        except ImportError:
            raise MissingExtra("secret://aws/…", "aws") from None
        which: dict[str, str] = {}
        if ref.fragment is not None:
            kind = "VersionId" if _VERSION_ID.fullmatch(ref.fragment) else "VersionStage"
            which[kind] = ref.fragment
        try:
            return self._client().get_secret_value(SecretId=ref.name, **which)
        except ClientError as error:
            response = cast("Mapping[str, Any]", error.response)
            code = str(response.get("Error", {}).get("Code") or "an error")
            raise BackendFailure(_REASONS.get(code) or f"AWS answered {code}") from None
        except BotoCoreError as error:
            raise _unable(type(error).__name__) from None

    def _client(self) -> Any:
        import boto3.session  # pyright: ignore[reportMissingTypeStubs] - untyped
        from botocore.config import Config  # pyright: ignore[reportMissingTypeStubs] - untyped

        env = self._environ
        explicit = bool(env.get("AWS_ACCESS_KEY_ID")) and not self._options.get("profile")
        session = boto3.session.Session(
            aws_access_key_id=env.get("AWS_ACCESS_KEY_ID") if explicit else None,
            aws_secret_access_key=env.get("AWS_SECRET_ACCESS_KEY") if explicit else None,
            aws_session_token=env.get("AWS_SESSION_TOKEN") if explicit else None,
            region_name=self._options.get("region")
            or env.get("AWS_REGION")
            or env.get("AWS_DEFAULT_REGION"),
            profile_name=self._options.get("profile") or env.get("AWS_PROFILE"),
        )
        endpoint = (
            self._options.get("endpoint_url")
            or env.get("AWS_ENDPOINT_URL_SECRETS_MANAGER")
            or env.get("AWS_ENDPOINT_URL")
        )
        limits = Config(connect_timeout=_CONNECT_SECONDS, retries={"max_attempts": 2})
        make: Any = session.client  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - untyped
        return make("secretsmanager", endpoint_url=endpoint, config=limits)


def _unable(name: str) -> BackendFailure:
    if name in _NO_CREDENTIALS:
        return BackendFailure("no AWS credentials", hint="set AWS_PROFILE or run aws configure")
    if name == "NoRegionError":
        return BackendFailure("no AWS region", hint="set secrets.aws.region or AWS_REGION")
    if name == "ProfileNotFound":
        return BackendFailure("the configured AWS profile does not exist")
    return BackendFailure(f"AWS cannot be asked: {name}")


def _text(answer: Mapping[str, Any]) -> str:
    text = answer.get("SecretString")
    if isinstance(text, str):
        return text
    data = answer.get("SecretBinary")
    if not isinstance(data, bytes):
        raise BackendFailure("the secret has no value")
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return base64.b64encode(data).decode()
