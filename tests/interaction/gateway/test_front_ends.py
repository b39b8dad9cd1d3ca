"""The same orders as without a gateway, through one: the results are the same."""

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from mcp import Client
from mcp.client.stdio import stdio_client
from tests.interaction.mcp_server import (
    test_elicitation,
    test_media,
    test_order,
    test_sessions_and_turns,
)
from tests.interaction.mcp_server.conftest import Connect, Setup
from tests.support.gateway_kit import Installation

from openclaw.runtime.gateway_client import GatewayClient

# What these say of `openclaw mcp-server` holds with a gateway behind it as well.
test_an_order = test_order.test_an_order_is_answered_with_what_a_real_server_said
test_an_image = test_media.test_an_image_reaches_a_model_that_sees_and_the_message_stays_as_it_was
test_a_text_file = test_media.test_a_text_file_reaches_the_model_as_text
test_sharing_nothing = test_sessions_and_turns.test_without_a_session_key_orders_share_nothing
test_at_once = test_sessions_and_turns.test_orders_of_different_sessions_run_at_once
test_in_turn = (
    test_sessions_and_turns.test_orders_of_one_session_run_in_turn_also_from_two_processes
)
test_cancelling = (
    test_sessions_and_turns.test_a_cancelled_order_stops_and_the_next_one_of_its_session_works
)
test_asking = test_elicitation.test_a_servers_question_reaches_the_clients_person
test_declining = test_elicitation.test_where_the_client_cannot_ask_a_question_is_declined
test_progress = test_sessions_and_turns.test_progress_names_the_tool_that_is_called


@pytest.fixture
def setup(installation: Installation) -> Setup:
    return Setup(installation.state)


@pytest.fixture
def connect(setup: Setup, installation: Installation) -> Connect:
    """A client whose server finds a gateway; the gateway has to have done the work."""

    @asynccontextmanager
    async def connected(*arguments: str, **options: Any) -> AsyncGenerator[Client]:
        async with gateway(installation) as url:
            transport = stdio_client(setup.parameters(*arguments))
            async with Client(transport, **options) as client:
                yield client
            assert await turns_begun(url, installation) > 0

    return connected


_running: dict[Installation, tuple[str, int]] = {}


@asynccontextmanager
async def gateway(installation: Installation) -> AsyncGenerator[str]:
    """The gateway of this installation: the first to ask starts it."""
    if installation in _running:
        yield _running[installation][0]
        return
    async with installation.here() as info:
        _running[installation] = (info.url, 0)
        try:
            yield info.url
        finally:
            del _running[installation]


async def turns_begun(url: str, installation: Installation) -> int:
    answer = await GatewayClient(url, installation.state).request("GET", "/api/sessions")
    return sum(row["entries"] for row in answer["sessions"])
