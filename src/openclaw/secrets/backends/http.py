"""One HTTP request to a secret store, with failures that say enough and never too much."""

from collections.abc import Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, cast
from urllib.parse import urlsplit

from openclaw.secrets.resolver import BackendFailure


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and the JSON object that came with it; empty where it was not one."""

    status: int
    body: Mapping[str, Any]

    def part(self, *keys: str) -> Mapping[str, Any]:
        """The object at that place, empty where there is none."""
        found: Any = self.body
        for key in keys:
            found = found.get(key) if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType] - anyone's JSON
        return cast("Mapping[str, Any]", found) if isinstance(found, dict) else {}


async def ask(
    method: str,
    url: str,
    *,
    headers: Mapping[str, str],
    json: Any = None,
    params: Mapping[str, str] | None = None,
    verify: SSLContext | bool = True,
) -> Answer:
    """Send one request and read the answer. The resolver's time limit is the only one."""
    import httpx2

    try:
        async with httpx2.AsyncClient(verify=verify, timeout=None, trust_env=False) as client:
            response = await client.request(method, url, headers=headers, json=json, params=params)
            content = response.content
    except httpx2.InvalidURL:
        raise BackendFailure("the configured address is not a URL") from None
    except httpx2.HTTPError as error:
        raise BackendFailure(f"{_host(url)} cannot be reached: {type(error).__name__}") from None
    return Answer(response.status_code, _object(content))


def failure(answer: Answer, url: str, reasons: Mapping[int, str]) -> BackendFailure:
    """What to say of an answer that is not the one hoped for."""
    reason = reasons.get(answer.status)
    if reason is None and answer.status >= 500:
        reason = "the server has a problem"
    return BackendFailure(f"{reason or 'unexpected answer'} (HTTP {answer.status} of {_host(url)})")


def _host(url: str) -> str:
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}"


def _object(content: bytes) -> Mapping[str, Any]:
    import json

    try:
        document = json.loads(content)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", document) if isinstance(document, dict) else {}
