"""Values from stores on the network.

- `secret://aws/NAME[#VERSION-or-STAGE][?key=json.field]`: AWS Secrets Manager, with boto3
- `secret://azure/VAULT/NAME[#VERSION]`: Azure Key Vault
- `secret://gcp/NAME[#VERSION]`: Google Cloud Secret Manager
- `secret://vault/PATH[#FIELD][?version=N]`: HashiCorp Vault or OpenBao, KV version 1 or 2
"""

import base64
import binascii
import json
import re
import ssl
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, cast
from urllib.parse import quote, urlsplit

import anyio
import anyio.to_thread

from openclaw.core.errors import MissingExtra
from openclaw.core.tools import json_object
from openclaw.secrets.backends.local import (
    BlockingCalls,
    Lookup,
    field_of,
    find_program,
    not_empty,
    output_of,
)
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure


@dataclass(frozen=True, slots=True)
class StoreResponse:
    """A status and the JSON object that came with it; empty if it wasn't an object."""

    status: int
    body: Mapping[str, Any]

    def part(self, *keys: str) -> Mapping[str, Any]:
        found = self.body
        for key in keys:
            found = json_object(found.get(key))
        return found


async def ask(
    url: str,
    *,
    headers: Mapping[str, str],
    body: Any = None,
    params: Mapping[str, str] | None = None,
    verify: ssl.SSLContext | bool = True,
) -> StoreResponse:
    """Send one request and read the answer. The resolver's time limit is the only one."""
    import httpx2

    method = "GET" if body is None else "POST"
    try:
        async with httpx2.AsyncClient(verify=verify, timeout=None, trust_env=False) as client:
            response = await client.request(method, url, headers=headers, json=body, params=params)
    except httpx2.InvalidURL:
        raise BackendFailure("the configured address is not a URL") from None
    except httpx2.HTTPError as error:
        raise BackendFailure(f"{_host(url)} cannot be reached: {type(error).__name__}") from None
    try:
        document = json.loads(response.content)
    except (ValueError, RecursionError):
        document = None
    return StoreResponse(response.status_code, json_object(document))


def failure(answer: StoreResponse, url: str, reasons: Mapping[int, str]) -> BackendFailure:
    usual = "the server has a problem" if answer.status >= 500 else "unexpected answer"
    reason = reasons.get(answer.status, usual)
    return BackendFailure(f"{reason} (HTTP {answer.status} of {_host(url)})")


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


# ---- AWS

_VERSION_ID: Final = re.compile(r"[0-9A-Fa-f-]{32,64}")
_AWS_REASONS: Final = {
    "ResourceNotFoundException": "there is no such secret or version",
    "AccessDeniedException": "these AWS credentials may not read it",
    "UnrecognizedClientException": "the AWS credentials are not valid",
    "InvalidSignatureException": "the AWS credentials are not valid",
    "ExpiredTokenException": "the AWS credentials have expired",
    "InvalidRequestException": "the secret is being deleted, or has no value",
    "DecryptionFailure": "AWS cannot decrypt it with its KMS key",
    "ThrottlingException": "too many requests",
}
_NO_CREDENTIALS: Final = ("no AWS credentials", "set AWS_PROFILE or run aws configure")
_UNABLE: Final[Mapping[str, tuple[str, str | None]]] = {
    "NoCredentialsError": _NO_CREDENTIALS,
    "PartialCredentialsError": _NO_CREDENTIALS,
    "CredentialRetrievalError": _NO_CREDENTIALS,
    "NoRegionError": ("no AWS region", "set secrets.aws.region or AWS_REGION"),
    "ProfileNotFound": ("the configured AWS profile does not exist", None),
}
_CONNECT_SECONDS: Final = 5


class AwsBackend:
    def __init__(self, options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._options = options
        self._environ = environ
        self._calls = BlockingCalls("AWS")

    async def read(self, ref: SecretRef) -> str:
        value = _text(await self._calls.run(lambda: self._ask(ref)))
        key = ref.option("key")
        return not_empty(value if key is None else field_of(value, key, what="the secret"))

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
            raise BackendFailure(_AWS_REASONS.get(code) or f"AWS answered {code}") from None
        except BotoCoreError as error:
            name = type(error).__name__
            reason, hint = _UNABLE.get(name, (f"AWS cannot be reached: {name}", None))
            raise BackendFailure(reason, hint=hint) from None

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


_API_VERSION: Final = "7.4"
_SCOPE: Final = "https://vault.azure.net/.default"
_NAME: Final = re.compile(r"[A-Za-z0-9-]{1,127}")
_AZURE_REASONS: Final = {
    401: "the Azure credentials are not valid",
    403: "these Azure credentials may not read it, or it is disabled",
    404: "there is no such secret or version",
    429: "too many requests",
}


class AzureBackend:
    def __init__(self, options: Mapping[str, Any], token: Callable[[], str] | None = None) -> None:
        self._vault = options.get("vault")
        self._endpoint = options.get("endpoint")
        self._token = token or _default_token
        self._calls = BlockingCalls("Azure's login")

    async def read(self, ref: SecretRef) -> str:
        vault, slash, name = ref.name.strip("/").rpartition("/")
        vault = vault if slash else str(self._vault or "")
        version = ref.fragment or ""
        if not _NAME.fullmatch(name) or not _NAME.fullmatch(vault) or "/" in version:
            raise BackendFailure("write secret://azure/VAULT/NAME[#VERSION]")
        token = await self._calls.run(self._token)
        base = str(self._endpoint or f"https://{vault}.vault.azure.net").rstrip("/")
        answer = await ask(
            f"{base}/secrets/{name}/{version}".rstrip("/"),
            headers={"Authorization": f"Bearer {token}"},
            params={"api-version": _API_VERSION},
        )
        value = answer.body.get("value")
        if answer.status != 200:
            raise failure(answer, base, _AZURE_REASONS)
        return not_empty(value if isinstance(value, str) else "")


def _default_token() -> str:
    try:
        from azure.core.exceptions import AzureError
        from azure.identity import DefaultAzureCredential
    except ImportError:
        raise MissingExtra("secret://azure/…", "azure") from None
    try:
        return DefaultAzureCredential().get_token(_SCOPE).token
    except AzureError as error:
        raise BackendFailure(
            f"no Azure credentials: {type(error).__name__}", hint="run az login"
        ) from None


# With google-auth installed, this uses the REST API with the application default credentials;
# otherwise the `gcloud` command. NAME may be `projects/P/secrets/N` in full.


def _crc32c(data: bytes) -> int:
    value = 0xFFFFFFFF
    for byte in data:
        value ^= byte
        for _ in range(8):
            value = (value >> 1) ^ (0x82F63B78 if value & 1 else 0)
    return value ^ 0xFFFFFFFF


_ENDPOINT: Final = "https://secretmanager.googleapis.com"
_GCP_SCOPE: Final = "https://www.googleapis.com/auth/cloud-platform"
_FULL_NAME: Final = re.compile(r"projects/(?P<project>[^/]+)/secrets/(?P<name>[^/]+)")
_GCP_NAME: Final = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]{0,254}")
_PROJECT: Final = re.compile(r"[a-z0-9][a-z0-9.:-]{0,98}")
_GCP_REASONS: Final = {
    400: "the request was refused; the version may be disabled or destroyed",
    401: "the Google credentials are not valid",
    403: "these Google credentials may not read it",
    404: "there is no such secret or version",
    429: "too many requests",
}
_GCLOUD_REASONS: Final = (
    ("not_found", _GCP_REASONS[404]),
    ("permission_denied", _GCP_REASONS[403]),
    ("unauthenticated", _GCP_REASONS[401]),
    ("failed_precondition", _GCP_REASONS[400]),
    ("active account", "nobody is logged in; run gcloud auth login"),
)


class GcpBackend:
    def __init__(self, options: Mapping[str, Any], environ: Mapping[str, str]) -> None:
        self._endpoint = str(options.get("endpoint") or _ENDPOINT).rstrip("/")
        self._project = options.get("project") or environ.get("GOOGLE_CLOUD_PROJECT")
        self._environ = environ
        self._calls = BlockingCalls("Google's login")
        self._credentials: Any = None
        self._refreshing = threading.Lock()

    async def read(self, ref: SecretRef) -> str:
        full = _FULL_NAME.fullmatch(ref.name)
        project = full["project"] if full else self._project
        name = full["name"] if full else ref.name
        version = ref.fragment or "latest"
        known = project is None or _PROJECT.fullmatch(str(project))
        if not (known and _GCP_NAME.fullmatch(name) and _GCP_NAME.fullmatch(version)):
            raise BackendFailure("this is not the name of a Google secret, version or project")
        try:
            headers, own_project = await self._calls.run(self._access)
        except ImportError:
            return await self._by_gcloud(project, name, version)
        project = project or own_project
        if not project:
            raise BackendFailure(
                "no Google project", hint="set secrets.gcp.project or GOOGLE_CLOUD_PROJECT"
            )
        return await self._by_rest(headers, f"projects/{project}/secrets/{name}/versions/{version}")

    async def _by_rest(self, headers: Mapping[str, str], resource: str) -> str:
        url = f"{self._endpoint}/v1/{resource}:access"
        answer = await ask(url, headers=headers)
        if answer.status != 200:
            raise failure(answer, url, _GCP_REASONS)
        payload = answer.part("payload")
        try:
            data = base64.b64decode(str(payload.get("data") or ""), validate=True)
        except binascii.Error:
            raise BackendFailure("the payload is not base64") from None
        checksum = payload.get("dataCrc32c")
        if checksum is not None and str(checksum) != str(_crc32c(data)):
            raise BackendFailure("the payload was damaged in transit: its checksum differs")
        try:
            return not_empty(data.decode("utf-8"))
        except UnicodeDecodeError:
            raise BackendFailure("the secret is not UTF-8 text") from None

    def _access(self) -> tuple[dict[str, str], str | None]:
        """The headers of a request, with a fresh token, and the project that the login belongs to.

        Blocks; raises ImportError if google-auth is not installed.
        """
        import google.auth
        import google.auth.transport.requests

        library: Any = google.auth
        try:
            with self._refreshing:  # one login serves all references resolved at the same time
                if self._credentials is None:
                    self._credentials = self._find_credentials(library)
                credentials, project = self._credentials
                if not credentials.valid:
                    credentials.refresh(google.auth.transport.requests.Request())
        except (library.exceptions.GoogleAuthError, ValueError) as error:
            raise BackendFailure(
                f"no Google credentials: {type(error).__name__}",
                hint="run gcloud auth application-default login",
            ) from None
        quota = getattr(credentials, "quota_project_id", None)
        headers = {"Authorization": f"Bearer {credentials.token}"}
        return headers | ({"x-goog-user-project": quota} if quota else {}), project

    def _find_credentials(self, library: Any) -> tuple[Any, str | None]:
        # As the library does it, but with the given environment.
        explicit = self._environ.get("GOOGLE_APPLICATION_CREDENTIALS")
        config = self._environ.get("CLOUDSDK_CONFIG")
        home = Path(self._environ.get("HOME") or "/")
        folder = Path(config) if config else home / ".config" / "gcloud"
        file = Path(explicit) if explicit else folder / "application_default_credentials.json"
        try:
            info = json_object(json.loads(file.read_text()))
        except (OSError, ValueError):
            info = json_object(None)
        if explicit and not info:
            raise BackendFailure(f"{file} has no Google credentials")
        if info.get("type") == "service_account":
            from google.oauth2 import service_account

            robot: Any = service_account.Credentials
            found = robot.from_service_account_info(info, scopes=[_GCP_SCOPE])
            return found, info.get("project_id")
        if info.get("type") == "authorized_user":
            from google.oauth2 import credentials

            user: Any = credentials.Credentials
            found = user.from_authorized_user_info(info)
            found = found.with_token_uri(info.get("token_uri") or found.token_uri)
            return found, info.get("quota_project_id")
        return library.default(scopes=[_GCP_SCOPE])  # a metadata server, or a federated identity

    async def _by_gcloud(self, project: str | None, name: str, version: str) -> str:
        program = find_program("gcloud", self._environ)
        if program is None:
            raise MissingExtra("secret://gcp/… (without the gcloud command)", "gcp")
        argv = [program, "secrets", "versions", "access", version, f"--secret={name}", "--quiet"]
        argv += [f"--project={project}"] if project else []
        return not_empty(await output_of(argv, self._environ, "gcloud", _GCLOUD_REASONS))


# PATH is what `vault kv get` takes. It may begin with the mount; otherwise the server is asked
# which mount contains it, and if there is none, the configured mount is prepended. Without a
# field, the secret must have exactly one.

_DEFAULT_ADDRESS: Final = "https://127.0.0.1:8200"
_VAULT_REASONS: Final = {
    400: "the request was refused",
    403: "permission denied, or the token has expired",
    404: "there is no such secret",
    429: "the server is busy or a standby",
    503: "Vault is sealed",
}


class VaultBackend:
    """Reads secrets with a token, or with one that it gets by AppRole and caches."""

    def __init__(
        self, options: Mapping[str, Any], environ: Mapping[str, str], credential: Lookup
    ) -> None:
        self._options = options
        self._environ = environ
        self._credential = credential
        address = options.get("address") or environ.get("VAULT_ADDR") or _DEFAULT_ADDRESS
        self._base = str(address).rstrip("/") + "/v1"
        self._login = anyio.Lock()
        self._role_token: str | None = None

    async def read(self, ref: SecretRef) -> str:
        token = await self._token()
        answer = await self._read(ref, token)
        if answer.status == 403 and self._role_token == token:
            self._role_token = None  # its lease may have expired: log in again
            answer = await self._read(ref, await self._token())
        if answer.status != 200:
            raise failure(answer, self._base, _VAULT_REASONS)
        return _field(answer.part("data"), ref)

    async def _read(self, ref: SecretRef, token: str) -> StoreResponse:
        mount, path, kind = await self._place(ref.name.strip("/"), token)
        if kind == 1:
            return await self._ask(f"{mount}/{path}", token)
        version = ref.option("version")
        params = {"version": version} if version else None
        answer = await self._ask(f"{mount}/data/{path}", token, params=params)
        # Version 2 adds a wrapper around the fields. A deleted version has none.
        inner = answer.part("data", "data")
        if answer.status == 200 and not inner and not answer.part("data", "metadata"):
            raise BackendFailure("the answer is not that of KV version 2")
        if answer.part("data", "metadata") and not inner:
            raise BackendFailure("this version of the secret was deleted")
        return StoreResponse(answer.status, {"data": inner})

    async def _place(self, path: str, token: str) -> tuple[str, str, int]:
        """The mount, the path inside it, and its engine's version."""
        mount = str(self._options.get("mount") or "secret").strip("/")
        inside = path.removeprefix(mount + "/")
        version = self._options.get("kv_version")
        if version is not None:
            return mount, inside, int(version)
        # Like `vault kv get`: the server says which mount contains a path.
        for candidate in dict.fromkeys((path, f"{mount}/{inside}")):
            answer = await self._ask(f"sys/internal/ui/mounts/{candidate}", token)
            data = answer.part("data")
            found = str(data.get("path") or "").strip("/")
            if answer.status == 200 and found and candidate.startswith(found + "/"):
                kind = str(answer.part("data", "options").get("version") or "1")
                return found, candidate.removeprefix(found + "/"), int(kind)
            if answer.status >= 500:
                raise failure(answer, self._base, _VAULT_REASONS)
        # Neither configured nor allowed to ask: a version 2 answer is recognisable, even a 404.
        answer = await self._ask(f"{mount}/data/{inside}", token)
        kind = 2 if answer.status == 200 or answer.part("data", "metadata") else 1
        return mount, inside, kind

    async def _ask(self, path: str, token: str | None = None, **options: Any) -> StoreResponse:
        namespace = self._options.get("namespace") or self._environ.get("VAULT_NAMESPACE")
        headers = {"X-Vault-Request": "true"}
        headers |= {"X-Vault-Token": token} if token is not None else {}
        headers |= {"X-Vault-Namespace": str(namespace)} if namespace else {}
        url = f"{self._base}/{quote(path)}"
        return await ask(url, headers=headers, verify=self._verify(), **options)

    def _verify(self) -> ssl.SSLContext | bool:
        if not self._base.startswith("https:"):
            return True
        if (self._environ.get("VAULT_SKIP_VERIFY") or "").lower() in ("1", "t", "true"):
            return False
        file = self._options.get("ca_file") or self._environ.get("VAULT_CACERT")
        directory = None if file else self._environ.get("VAULT_CAPATH")
        try:
            if directory:  # every file in it, as Vault does, and none of the system's
                pems = [one.read_bytes() for one in Path(directory).iterdir() if one.is_file()]
                text = b"\n".join([b"", *pems, b""]).decode("ascii", "ignore")
                return ssl.create_default_context(cadata=text)
            return ssl.create_default_context(cafile=str(file) if file else None)
        except OSError:
            unread = file or directory
            raise BackendFailure(f"cannot read the certificate authority {unread}") from None

    async def _token(self) -> str:
        if self._options.get("app_role"):
            async with self._login:
                if self._role_token is None:
                    token = await self._log_in(self._options["app_role"])
                    self._role_token = await self._credential(token)
                return self._role_token
        token = self._options.get("token") or self._environ.get("VAULT_TOKEN")
        if token:
            return await self._credential(str(token))
        file = Path(self._environ.get("HOME") or "/") / ".vault-token"
        try:
            text = await anyio.to_thread.run_sync(file.read_text, abandon_on_cancel=True)
        except (OSError, ValueError):
            raise BackendFailure(
                "no Vault token",
                hint="set VAULT_TOKEN or secrets.vault.appRole, or run vault login",
            ) from None
        return await self._credential(text.strip())

    async def _log_in(self, role: Mapping[str, Any]) -> str:
        mount = str(role.get("mount") or "approle").strip("/")
        login = {key: await self._credential(str(role[key])) for key in ("role_id", "secret_id")}
        answer = await self._ask(f"auth/{mount}/login", body=login)
        token = answer.part("auth").get("client_token")
        if answer.status != 200 or not isinstance(token, str):
            reasons = _VAULT_REASONS | {400: "the AppRole login was refused"}
            raise failure(answer, self._base, reasons)
        return token


def _field(fields: Mapping[str, Any], ref: SecretRef) -> str:
    if ref.fragment is not None:
        value = fields.get(ref.fragment)
        if value is None:
            raise BackendFailure(f"the secret has no field '{ref.fragment}'")
    elif len(fields) == 1:
        value = next(iter(fields.values()))
    else:
        raise BackendFailure(
            f"the secret has {len(fields)} fields", hint=f"name one: {ref.text}#FIELD"
        )
    text = value if isinstance(value, str) else json.dumps(value, separators=(",", ":"))
    return not_empty(text, "the field")
