"""A stand-in for HashiCorp Vault: KV 1 and 2, tokens, namespaces and AppRole, over real HTTP."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tests.support.fake_http import FakeHttp, Reply, Request


@dataclass(slots=True)
class _Version:
    data: Mapping[str, Any]
    deleted: bool = False


@dataclass(slots=True)
class _Mount:
    version: int
    secrets: dict[str, list[_Version]] = field(default_factory=dict[str, list[_Version]])


class FakeVault(FakeHttp):
    """Answers as Vault does. `preflight` False is a server that does not tell about its mounts."""

    def __init__(self, *, token: str = "root-token", namespace: str | None = None) -> None:
        super().__init__(self._route)
        self.tokens = {token}
        self.roles: dict[tuple[str, str], str] = {}
        self.preflight = True
        self.sealed = False
        self.logins = 0
        self._namespace = namespace
        self._mounts: dict[str, _Mount] = {}

    def mount(self, path: str, version: int) -> None:
        """Mount a key-value engine."""
        self._mounts[path] = _Mount(version)

    def put(self, mount: str, path: str, data: Mapping[str, Any]) -> None:
        """Write a secret, or a further version of it."""
        self._mounts[mount].secrets.setdefault(path, []).append(_Version(data))

    def delete_latest(self, mount: str, path: str) -> None:
        """Soft-delete the latest version, as `vault kv delete` does."""
        self._mounts[mount].secrets[path][-1].deleted = True

    def _route(self, request: Request) -> Reply:
        if self.sealed:
            return Reply(503, {"errors": ["Vault is sealed"]})
        if self._namespace and request.headers.get("x-vault-namespace") != self._namespace:
            return _denied()
        path = request.path.removeprefix("/v1/")
        if request.method == "POST" and path.endswith("/login"):
            return self._log_in(path, request.json())
        if request.headers.get("x-vault-token") not in self.tokens:
            return _denied()
        if path.startswith("sys/internal/ui/mounts/"):
            return self._preflight(path.removeprefix("sys/internal/ui/mounts/"))
        return self._read(path, request.query)

    def _log_in(self, path: str, body: Mapping[str, Any]) -> Reply:
        mount = path.removeprefix("auth/").removesuffix("/login")
        if mount != "approle" or self.roles.get((body["role_id"], body["secret_id"])) is None:
            return Reply(400, {"errors": ["invalid role or secret ID"]})
        self.logins += 1
        token = f"{self.roles[body['role_id'], body['secret_id']]}-{self.logins}"
        self.tokens.add(token)
        return Reply(200, {"auth": {"client_token": token, "lease_duration": 3600}})

    def _preflight(self, path: str) -> Reply:
        mount = self._mount_of(path)
        if not self.preflight or mount is None:
            return Reply(403, {"errors": ["preflight capability check returned 403"]})
        options = {"version": "2"} if self._mounts[mount].version == 2 else None
        return Reply(200, {"data": {"path": f"{mount}/", "type": "kv", "options": options}})

    def _mount_of(self, path: str) -> str | None:
        fitting = [mount for mount in self._mounts if path.startswith(mount + "/")]
        return max(fitting, key=len, default=None)

    def _read(self, path: str, query: Mapping[str, str]) -> Reply:
        name = self._mount_of(path)
        if name is None:
            return Reply(404, {"errors": [f'no handler for route "{path}".']})
        mount, rest = self._mounts[name], path.removeprefix(name + "/")
        if mount.version == 1:
            versions = mount.secrets.get(rest)
            if not versions:
                return Reply(404, {"errors": []})
            return Reply(200, {"lease_duration": 2764800, "data": dict(versions[-1].data)})
        if not rest.startswith("data/"):
            return Reply(404, {"errors": [], "warnings": ["Invalid path for a versioned K/V"]})
        return _versioned(mount.secrets.get(rest.removeprefix("data/")) or [], query)


def _versioned(versions: list[_Version], query: Mapping[str, str]) -> Reply:
    number = int(query.get("version") or 0) or len(versions)
    if not versions or number > len(versions):
        return Reply(404, {"errors": []})
    version = versions[number - 1]
    metadata = {
        "created_time": "2026-11-15T20:00:00Z",
        "deletion_time": "2026-11-15T21:00:00Z" if version.deleted else "",
        "destroyed": False,
        "version": number,
    }
    if version.deleted:
        return Reply(404, {"data": {"data": None, "metadata": metadata}})
    return Reply(200, {"data": {"data": dict(version.data), "metadata": metadata}})


def _denied() -> Reply:
    return Reply(403, {"errors": ["permission denied"]})
