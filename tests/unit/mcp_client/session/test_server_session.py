"""One request over several rounds."""

from collections.abc import Mapping
from typing import Any, cast

import pytest

from openclaw.mcp_client.errors import Interrupted, InvalidResult, Unavailable
from openclaw.mcp_client.session import server_session
from openclaw.mcp_client.session.elicitation import decline
from openclaw.mcp_client.session.negotiation import HandshakeResult
from openclaw.mcp_client.session.notifications import RequestHandlers
from openclaw.mcp_client.session.server_session import (
    MAX_ROUNDS,
    RequestMetadata,
    ServerSession,
)


class _Silent:
    send_raw_request = notify = None


class _DiesBetweenRounds(_Silent):
    def __init__(self) -> None:
        self.sent: list[Mapping[str, Any]] = []

    async def call(self, method: str, params: Mapping[str, Any] | None, **_: Any) -> dict[str, Any]:
        if self.sent:
            raise Unavailable("it ended")
        self.sent.append(params or {})
        return {"resultType": "input_required", "requestState": "half done"}


class _AsksAgain(_Silent):
    def __init__(self, times: int) -> None:
        self.left = times

    async def call(self, *_: Any, **__: Any) -> dict[str, Any]:
        self.left -= 1
        asks = {"resultType": "input_required", "requestState": "on"}
        return {"content": []} if self.left < 0 else asks


class _Session(ServerSession):
    async def sdk(self) -> Any:
        return None


def _session(caller: _Silent) -> ServerSession:
    answers = RequestHandlers("fake", (), None, decline)
    session = _Session(cast("Any", caller), cast("Any", None), answers, "stdio")
    session.request_metadata = RequestMetadata(HandshakeResult("2025-11-25"), {}, http=False)
    return session


async def test_a_call_whose_server_dies_between_rounds_is_not_begun_again() -> None:
    caller = _DiesBetweenRounds()
    with pytest.raises(Interrupted):
        await _session(caller).request("tools/call", {"name": "pay"}, timeout=None)
    assert len(caller.sent) == 1


async def test_the_result_after_the_last_round_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server_session, "_FIRST_PAUSE", 0.0)
    done = await _session(_AsksAgain(MAX_ROUNDS)).request("tools/call", {}, timeout=None)
    assert done == {"content": []}
    asks_on = _AsksAgain(MAX_ROUNDS + 2)
    with pytest.raises(InvalidResult, match=f"more than {MAX_ROUNDS} times"):
        await _session(asks_on).request("tools/call", {}, timeout=None)
    assert asks_on.left == 1


def test_a_request_of_the_newest_revision_says_which_log_messages_we_want() -> None:
    stamped = RequestMetadata(HandshakeResult("2026-07-28"), {}, http=False).params({"name": "x"})
    assert stamped["_meta"]["io.modelcontextprotocol/logLevel"] in ("debug", "info", "warning")
