"""Calls that block, in threads that may be left behind."""

import json
import threading
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from ssl import SSLContext
from typing import Any, Final, TypeVar, cast
from urllib.parse import urlsplit

import anyio
import anyio.from_thread
import anyio.lowlevel

from openclaw.secrets.resolver import BackendFailure

T = TypeVar("T")

_MOST_LEFT_BEHIND: Final = 16


class BlockingCalls:
    """Runs a library's blocking calls in daemon threads.

    A call that is cancelled is left to itself: it holds up neither its caller nor the end of the
    program. When too many hang, new ones are refused instead of piling up.
    """

    def __init__(self, what: str) -> None:
        self._what = what
        self._slots = threading.Semaphore(_MOST_LEFT_BEHIND)

    async def run(self, call: Callable[[], T]) -> T:
        if not self._slots.acquire(blocking=False):
            raise BackendFailure(f"{_MOST_LEFT_BEHIND} earlier calls to {self._what} still hang")
        outcome: dict[str, Any] = {}
        done = anyio.Event()
        token = anyio.lowlevel.current_token()

        def body() -> None:
            try:
                outcome["value"] = call()
            except BaseException as error:  # noqa: BLE001 - it is raised again where it belongs
                outcome["error"] = error
            finally:
                self._slots.release()
            try:
                anyio.from_thread.run_sync(done.set, token=token)
            except RuntimeError:
                return  # the caller's event loop is gone

        threading.Thread(target=body, name=f"{self._what} call", daemon=True).start()
        await done.wait()
        if "error" in outcome:
            raise outcome["error"]
        return outcome["value"]


def field_of(document: Any, path: str, *, what: str) -> str:
    """The field at `path` as text.

    A key that itself contains dots is tried before the path is taken apart; a number in the path
    is an index into a list. Strings come as they are, anything else as compact JSON.
    """
    value = _walk(document, path)
    if value is None:
        raise BackendFailure(f"{what} has no field '{path}'")
    if isinstance(value, str):
        return value
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def _walk(document: Any, path: str) -> Any:
    if isinstance(document, dict):
        table = cast("dict[str, Any]", document)
        if path in table:
            return table[path]
        heads = [path[:i] for i, character in enumerate(path) if character == "."]
        for head in reversed(heads):
            if head in table:
                return _walk(table[head], path[len(head) + 1 :])
        return None
    if isinstance(document, list):
        index, _, rest = path.partition(".")
        items = cast("list[Any]", document)
        if not index.isdecimal() or int(index) >= len(items):
            return None
        return _walk(items[int(index)], rest) if rest else items[int(index)]
    return None


Lookup = Callable[[str], Awaitable[str]]
"""Takes a configured value and gives it with its own references replaced."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A status and the JSON object that came with it; empty where it was not one."""

    status: int
    body: Mapping[str, Any]

    def part(self, *keys: str) -> Mapping[str, Any]:
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
