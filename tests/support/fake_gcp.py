"""A stand-in for Google Cloud: its token endpoint and Secret Manager, over real HTTP."""

import base64
import re
from dataclasses import dataclass
from typing import Any

from tests.support.fake_http import FakeHttp, Reply, Request

_ACCESS = re.compile(r"/v1/projects/([^/]+)/secrets/([^/]+)/versions/([^/:]+):access")


@dataclass(slots=True)
class _Version:
    data: bytes
    checksum: int | None
    enabled: bool = True


class FakeGcp(FakeHttp):
    """Gives a token to whoever presents credentials, and secrets to whoever has the token."""

    def __init__(self) -> None:
        super().__init__(self._route)
        self.denied: set[str] = set()
        self.access_token = "ya29.stand-in-token"
        self._secrets: dict[tuple[str, str], list[_Version]] = {}

    def put(self, project: str, name: str, data: bytes, checksum: int | None = None) -> None:
        """Add a version of a secret."""
        self._secrets.setdefault((project, name), []).append(_Version(data, checksum))

    def disable_latest(self, project: str, name: str) -> None:
        """Disable the latest version."""
        self._secrets[project, name][-1].enabled = False

    def user_credentials(self) -> dict[str, Any]:
        """What `gcloud auth application-default login` leaves, for this server."""
        return {
            "type": "authorized_user",
            "client_id": "client.apps.googleusercontent.com",
            "client_secret": "client-secret",
            "refresh_token": "refresh-token",
            "token_uri": f"{self.url}/token",
        }

    def service_account(self, private_key: str) -> dict[str, Any]:
        """A service account's key file, for this server."""
        return {
            "type": "service_account",
            "project_id": "key-project",
            "private_key_id": "1",
            "private_key": private_key,
            "client_email": "robot@key-project.iam.gserviceaccount.com",
            "token_uri": f"{self.url}/token",
        }

    def _route(self, request: Request) -> Reply:
        if request.path == "/token":
            return self._token(request.form())
        if request.headers.get("authorization") != f"Bearer {self.access_token}":
            return _error(401, "UNAUTHENTICATED")
        match = _ACCESS.fullmatch(request.path)
        if match is None:
            return _error(404, "NOT_FOUND")
        project, name, version = match.groups()
        return self._access(project, name, version)

    def _token(self, form: dict[str, str]) -> Reply:
        known = form.get("refresh_token") == "refresh-token" or "assertion" in form
        if not known:
            return Reply(400, {"error": "invalid_grant"})
        return Reply(200, {"access_token": self.access_token, "expires_in": 3600})

    def _access(self, project: str, name: str, version: str) -> Reply:
        if name in self.denied:
            return _error(403, "PERMISSION_DENIED")
        versions = self._secrets.get((project, name)) or []
        number = len(versions) if version == "latest" else int(version)
        if not 1 <= number <= len(versions):
            return _error(404, "NOT_FOUND")
        found = versions[number - 1]
        if not found.enabled:
            return _error(400, "FAILED_PRECONDITION")
        payload: dict[str, Any] = {"data": base64.b64encode(found.data).decode()}
        if found.checksum is not None:
            payload["dataCrc32c"] = str(found.checksum)
        full = f"projects/{project}/secrets/{name}/versions/{number}"
        return Reply(200, {"name": full, "payload": payload})


def _error(code: int, status: str) -> Reply:
    return Reply(code, {"error": {"code": code, "status": status, "message": "as asked"}})
