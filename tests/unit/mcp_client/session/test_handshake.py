from typing import Any, cast

import anyio
import mcp_types
import pytest
from anyio.abc import TaskStatus
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import Dispatcher
from mcp_types import version

from openclaw.mcp_client.errors import Interrupted, InvalidResult
from openclaw.mcp_client.session import negotiation
from openclaw.mcp_client.session.negotiation import as_sdk_result, discovered, initialized
from openclaw.mcp_client.session.notifications import RequestHandlers
from openclaw.mcp_client.session.server_session import ServerSession

LEGACY: dict[str, Any] = {
    "protocolVersion": "2025-06-18",
    "capabilities": {"tools": {"listChanged": True}, "logging": None, "made-up": {}},
    "serverInfo": {"name": "docs", "version": "2"},
    "instructions": "Search first.",
}
MODERN: dict[str, Any] = {
    "supportedVersions": ["2027-01-01", "2026-07-28"],
    "capabilities": {"resources": {}},
    "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "docs", "version": "3"}},
}


def test_the_names_and_revisions_are_those_of_the_sdk() -> None:
    assert version.HANDSHAKE_PROTOCOL_VERSIONS == negotiation.HANDSHAKE_VERSIONS
    assert version.MODERN_PROTOCOL_VERSIONS == (negotiation.MODERN_VERSION,)
    assert mcp_types.PROTOCOL_VERSION_META_KEY == negotiation.VERSION_KEY
    assert mcp_types.CLIENT_INFO_META_KEY == negotiation.CLIENT_INFO_KEY
    assert mcp_types.CLIENT_CAPABILITIES_META_KEY == negotiation.CAPABILITIES_KEY
    assert mcp_types.SERVER_INFO_META_KEY in MODERN["_meta"]


def test_a_greeting_has_the_capabilities_that_we_know() -> None:
    found = initialized(LEGACY)
    assert found.capabilities == {"tools": {"listChanged": True}}
    assert (found.protocol, found.name, found.version) == ("2025-06-18", "docs", "2")
    assert found.instructions == "Search first."
    modern = discovered(MODERN)
    assert (modern.protocol, modern.name, modern.version) == ("2026-07-28", "docs", "3")
    assert discovered({**MODERN, "_meta": {}}).name is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"protocolVersion": "1999-01-01"},
        {"protocolVersion": 7},
        {"capabilities": []},
        {"capabilities": {"tools": True}},
        {"serverInfo": {"name": "docs"}},
        {"instructions": 7},
    ],
)
def test_an_answer_that_is_not_what_mcp_says_is_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(InvalidResult):
        initialized({**LEGACY, **wrong})


def test_a_server_that_shares_no_revision_with_us_is_refused() -> None:
    with pytest.raises(InvalidResult, match="no MCP revision"):
        discovered({**MODERN, "supportedVersions": ["2027-01-01"]})


def test_the_sdk_takes_a_greeting_whose_details_it_would_refuse() -> None:
    session = ClientSession(dispatcher=cast("Dispatcher[Any]", object()))
    odd = {**MODERN, "capabilities": {"experimental": {"streaming": True}}, "ttlMs": "long"}
    greeting = discovered(odd)
    session.adopt(as_sdk_result(greeting))
    assert greeting.capabilities == odd["capabilities"]
    assert session.protocol_version == "2026-07-28"


async def test_a_connection_that_was_closed_meanwhile_gives_no_session_of_the_sdk() -> None:
    class Silent:
        send_raw_request = notify = call = None
        lost = anyio.Event()

        async def run(self, *_: Any, task_status: TaskStatus[None]) -> None:
            task_status.started()

    async def decline(server: str, params: Any) -> Any:
        pass

    dispatcher = cast("Any", Silent())
    answers = RequestHandlers("fake", (), None, decline)
    session = ServerSession(dispatcher, cast("Any", None), answers, "stdio")
    async with session.running():
        pass
    with pytest.raises(Interrupted):
        await session.sdk()
