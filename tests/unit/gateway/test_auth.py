"""What the guard lets in, and how."""

from collections import Counter
from typing import Any, cast

import anyio
import anyio.lowlevel

from openclaw.config.schema import GatewayLimits
from openclaw.core.clock import SystemClock
from openclaw.gateway.auth import AllowedHosts, Guard
from openclaw.gateway.metrics import Metrics
from openclaw.gateway.tokens import Tokens
from openclaw.secrets.refs import Secret


async def test_of_many_requests_at_once_only_one_begins_in_a_turn_of_the_event_loop() -> None:
    """So that a flood does not keep the others, whose turn it also is, from running."""
    turn, begun = 0, Counter[int]()
    most = 20

    async def app(scope: Any, receive: Any, send: Any) -> None:
        begun[turn] += 1

    async def count_turns() -> None:
        nonlocal turn
        while begun.total() < most:
            turn += 1
            await anyio.lowlevel.checkpoint()

    async def request() -> None:
        headers = [(b"host", b"localhost")]
        scope = {"type": "http", "method": "GET", "path": "/", "headers": headers}
        await guard(scope | {"client": ("127.0.0.1", 1)}, cast("Any", None), cast("Any", None))

    clock = SystemClock()
    tokens = Tokens(Secret("o" * 43), clock)
    guard = Guard(app, tokens, AllowedHosts(), GatewayLimits(), clock, Metrics())
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(count_turns)
            for _ in range(most):
                group.start_soon(request)
    assert begun.total() == most
    assert max(begun.values()) == 1
