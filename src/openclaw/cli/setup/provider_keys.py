"""Checking a provider's key with one request, before anything relies on it."""

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import anyio

from openclaw.net.proxies import open_client

if TYPE_CHECKING:
    from openclaw.models.choose import Candidate

_PATHS = {"anthropic-messages": "/v1/models", "google-generative-ai": "/v1beta/models"}
_OTHERS = "/models"
_OPENROUTER = "/key"  # its list of models is for everybody
_GOOGLE = "google-generative-ai"
_ANTHROPIC_VERSION = "2026-10-21"
_SECONDS = 20.0
_REFUSED = (400, 401, 403)
_MESSAGE_CHARS = 200


class KeyRefused(Exception):
    """Raised when the provider says that it does not know the key."""


class KeyNotChecked(Exception):
    """Raised when nobody could tell, such as without a network; `status` is what was answered."""

    def __init__(self, reason: str, status: int | None = None) -> None:
        super().__init__(reason)
        self.status = status


def check_key(candidate: "Candidate", key: str, environ: Mapping[str, str]) -> None:
    anyio.run(ask_provider, candidate, key, environ)


async def ask_provider(
    candidate: "Candidate",
    key: str | None,
    environ: Mapping[str, str],
    more: Mapping[str, str] | None = None,
) -> None:
    """Raises KeyRefused or KeyNotChecked; `more` are headers that the provider wants besides."""
    import httpx2

    base = (candidate.base_url or "").rstrip("/")
    path = _OPENROUTER if candidate.provider == "openrouter" else _PATHS.get(candidate.api, _OTHERS)
    google = candidate.api == _GOOGLE
    headers = dict(more or {})
    if key is not None:
        headers |= {"x-goog-api-key": key} if google else {"Authorization": f"Bearer {key}"}
    if candidate.api == "anthropic-messages":
        headers["anthropic-version"] = _ANTHROPIC_VERSION
    try:
        with anyio.fail_after(_SECONDS):
            async with open_client(base, environ, silence=_SECONDS) as client:
                answer = await client.get(f"{base}{path}", headers=headers)
    except (httpx2.HTTPError, httpx2.InvalidURL, OSError, ValueError) as error:
        raise KeyNotChecked(str(error) or type(error).__name__) from error
    if answer.status_code in _REFUSED:
        raise KeyRefused(f"HTTP {answer.status_code}{_said(answer.content)}")
    if not answer.is_success:
        told = f"HTTP {answer.status_code}{_said(answer.content)}"
        raise KeyNotChecked(told, answer.status_code)


def _said(content: bytes) -> str:
    try:
        body: Any = json.loads(content)
        error = body["error"]
        return f": {error if isinstance(error, str) else error['message']}"[:_MESSAGE_CHARS]
    except (ValueError, KeyError, TypeError):
        return ""
