"""One order: arguments in, one aggregated answer out."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import mcp_types as types

from openclaw.agent.context import MessageContext
from openclaw.core.clock import Clock
from openclaw.core.content import Text
from openclaw.core.errors import OpenClawError
from openclaw.core.events import Emit
from openclaw.core.ids import order_session_key
from openclaw.core.wire import describe
from openclaw.mcp_server.agent_link import AgentLink
from openclaw.mcp_server.aggregate import Collector
from openclaw.mcp_server.arguments import read_order
from openclaw.mcp_server.progress import ProgressReporter, Report

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of the client that gave an order."""

    protocol_version: str
    report: Report | None


class OrderDesk:
    """Takes orders for one tool and has the agent answer them."""

    def __init__(
        self, tool: dict[str, Any], link: AgentLink, clock: Clock, agent_id: str | None
    ) -> None:
        self._schema = tool["inputSchema"]
        self._link = link
        self._clock = clock
        self._agent_id = agent_id

    async def take(self, arguments: dict[str, Any] | None, caller: Caller) -> types.CallToolResult:
        """Answer one order. Whatever goes wrong is an answer too."""
        try:
            return await self._answer(arguments, caller)
        except OpenClawError as error:
            return refusal(describe(error))
        except Exception as error:
            logger.exception("an order failed")
            return refusal(f"unexpected {type(error).__name__}; see the server's log")

    async def _answer(
        self, arguments: dict[str, Any] | None, caller: Caller
    ) -> types.CallToolResult:
        order = read_order(self._schema, arguments)
        agent = await self._link.get()
        collector = Collector(all_tool_text=agent.all_tool_text)
        context = MessageContext(
            text=order.message,
            session_key=order.session_key or order_session_key(self._clock),
            agent_id=self._agent_id or agent.default_agent,
            origin="mcp",
        )
        async with _progress(caller.report, self._clock) as on_event:
            reply = await agent.get_reply(
                context,
                on_block_reply=collector.add_reply,
                on_tool_result=lambda name, result: collector.add_tool_output(result.outputs),
                on_event=on_event,
            )
        collector.add_reply((Text(reply.text), *reply.media))
        return types.CallToolResult(
            content=[types.TextContent(type="text", text=collector.text())], is_error=False
        )


@asynccontextmanager
async def _progress(report: Report | None, clock: Clock) -> AsyncGenerator[Emit | None]:
    if report is None:
        yield None
        return
    reporter = ProgressReporter(report, clock)
    async with anyio.create_task_group() as tasks:
        tasks.start_soon(reporter.run, name="order progress")
        yield reporter.on_event
        tasks.cancel_scope.cancel()


def refusal(message: str) -> types.CallToolResult:
    """The answer to an order that could not be carried out."""
    return types.CallToolResult(
        content=[types.TextContent(type="text", text=f"Error: {message}")], is_error=True
    )
