"""One request over several rounds."""

from collections.abc import Mapping
from typing import Any, cast

import anyio
import pytest

from openclaw.mcp_client.errors import Interrupted, Unavailable
from openclaw.mcp_client.session.negotiation import Era
from openclaw.mcp_client.session.server_session import RequestMetadata, ServerSession


class _DiesBetweenRounds:
    def __init__(self) -> None:
        self.sent: list[Mapping[str, Any]] = []

    async def call(self, method: str, params: Mapping[str, Any] | None, **_: Any) -> dict[str, Any]:
        if self.sent:
            raise Unavailable("it ended")
        self.sent.append(params or {})
        return {"resultType": "input_required", "requestState": "half done"}


async def test_a_call_whose_server_dies_between_rounds_is_not_begun_again() -> None:
    caller = _DiesBetweenRounds()
    session = ServerSession(
        call=caller.call,
        session=cast("Any", None),
        stamp=RequestMetadata("2025-11-25", Era.LEGACY, {}, http=False),
        ended=anyio.Event(),
        is_gone=lambda: False,
        why_ended=lambda: "it ended",
        transport="stdio",
    )
    with pytest.raises(Interrupted):
        await session.request("tools/call", {"name": "pay"}, timeout=None)
    assert len(caller.sent) == 1


def test_a_request_of_the_newest_revision_says_which_log_messages_we_want() -> None:
    stamped = RequestMetadata("2026-07-28", Era.MODERN, {}, http=False).params({"name": "x"})
    assert stamped["_meta"]["io.modelcontextprotocol/logLevel"] in ("debug", "info", "warning")
