"""`secret://vault/PATH[#FIELD][?version=N]`: HashiCorp Vault or OpenBao, KV version 1 or 2.

PATH is what `vault kv get` takes. It may begin with the mount; otherwise the server is asked
whether it lies in one, and the configured mount is put before it if not. Without a field the
secret must have exactly one.
"""

import json
import ssl
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import anyio
import anyio.to_thread

from openclaw.secrets.backends.support import Answer, Lookup, ask, failure
from openclaw.secrets.refs import SecretRef
from openclaw.secrets.resolver import BackendFailure

_DEFAULT_ADDRESS: Final = "https://127.0.0.1:8200"
_REASONS: Final = {
    400: "the request was refused",
    403: "permission denied, or the token has expired",
    404: "there is no such secret",
    429: "the server is busy or a standby",
    503: "Vault is sealed",
}


@dataclass(frozen=True, slots=True)
class _Place:
    mount: str
    path: str
    version: int


class VaultBackend:
    """Reads one secret with a token, or with one that it got by AppRole and keeps."""

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
            self._role_token = None  # its lease may have ended: log in once more
            answer = await self._read(ref, await self._token())
        return _field(self._fields(answer), ref)

    async def _read(self, ref: SecretRef, token: str) -> Answer:
        place = await self._place(ref.name.strip("/"), token)
        if place.version == 1:
            return await self._get(f"{place.mount}/{place.path}", token)
        version = ref.option("version")
        params = {"version": version} if version else None
        answer = await self._get(f"{place.mount}/data/{place.path}", token, params)
        # Version 2 wraps the fields once more. A deleted version has none, and says so.
        inner = answer.part("data", "data")
        if answer.status == 200 and not inner and not answer.part("data", "metadata"):
            raise BackendFailure("the answer is not that of KV version 2")
        if answer.part("data", "metadata") and not inner:
            raise BackendFailure("this version of the secret was deleted")
        return Answer(answer.status, {"data": inner})

    def _fields(self, answer: Answer) -> Mapping[str, Any]:
        if answer.status != 200:
            raise failure(answer, self._base, _REASONS)
        return answer.part("data")

    async def _place(self, path: str, token: str) -> _Place:
        mount = str(self._options.get("mount") or "secret").strip("/")
        inside = path.removeprefix(mount + "/")
        version = self._options.get("kv_version")
        if version is not None:
            return _Place(mount, inside, int(version))
        # As `vault kv get` does it: the server tells which mount a path lies in.
        for candidate in dict.fromkeys((path, f"{mount}/{inside}")):
            answer = await self._get(f"sys/internal/ui/mounts/{candidate}", token)
            data = answer.part("data")
            found = str(data.get("path") or "").strip("/")
            if answer.status == 200 and found and candidate.startswith(found + "/"):
                kind = str(answer.part("data", "options").get("version") or "1")
                return _Place(found, candidate.removeprefix(found + "/"), int(kind))
            if answer.status >= 500:
                raise failure(answer, self._base, _REASONS)
        return _Place(mount, inside, await self._guessed(f"{mount}/data/{inside}", token))

    async def _guessed(self, path: str, token: str) -> int:
        # Neither told nor allowed to ask: a version 2 answer, even one of 404, has its marks.
        answer = await self._get(path, token)
        return 2 if answer.status == 200 or answer.part("data", "metadata") else 1

    async def _get(self, path: str, token: str, params: Mapping[str, str] | None = None) -> Answer:
        return await ask(
            "GET",
            f"{self._base}/{quote(path)}",
            headers=self._headers({"X-Vault-Token": token}),
            params=params,
            verify=self._verify(),
        )

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        namespace = self._options.get("namespace") or self._environ.get("VAULT_NAMESPACE")
        headers = {"X-Vault-Request": "true", **more}
        return headers | ({"X-Vault-Namespace": str(namespace)} if namespace else {})

    def _verify(self) -> ssl.SSLContext | bool:
        if not self._base.startswith("https:"):
            return True
        if (self._environ.get("VAULT_SKIP_VERIFY") or "").lower() in ("1", "t", "true"):
            return False
        file = self._options.get("ca_file") or self._environ.get("VAULT_CACERT")
        directory = self._environ.get("VAULT_CAPATH")
        try:
            return ssl.create_default_context(
                cafile=str(file) if file else None, capath=directory if not file else None
            )
        except OSError:
            raise BackendFailure(f"cannot read the certificate authority {file}") from None

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
        answer = await ask(
            "POST",
            f"{self._base}/auth/{quote(mount)}/login",
            headers=self._headers({}),
            json={
                "role_id": await self._credential(str(role["role_id"])),
                "secret_id": await self._credential(str(role["secret_id"])),
            },
            verify=self._verify(),
        )
        token = answer.part("auth").get("client_token")
        if answer.status != 200 or not isinstance(token, str):
            reasons = _REASONS | {400: "the AppRole login was refused"}
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
    if not text:
        raise BackendFailure("the field is empty")
    return text
