"""One order: arguments in, one aggregated answer out."""

import logging
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any

import anyio
import mcp_types as types

from openclaw.agent.context import Ask, MessageContext
from openclaw.core.clock import Clock
from openclaw.core.content import Text
from openclaw.core.errors import OpenClawError
from openclaw.core.events import Emit
from openclaw.core.ids import order_session_key
from openclaw.core.tools import Elicit
from openclaw.core.wire import describe
from openclaw.mcp_server.agent_link import AgentLink, OrderTaker
from openclaw.mcp_server.aggregate import Collector
from openclaw.mcp_server.arguments import read_order
from openclaw.mcp_server.inbound import receive
from openclaw.mcp_server.outbound import OutboundRules, render
from openclaw.mcp_server.progress import ProgressReporter, Report
from openclaw.media.store import order_files

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Caller:
    """What is known of the client that gave an order."""

    protocol_version: str
    report: Report | None
    ask: Ask | None = None
    elicit: Elicit | None = None


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
        settings = agent.order_settings(self._agent_id)
        with order_files(settings.temp_root) as files:
            context = MessageContext(
                text=order.message,
                session_key=order.session_key or order_session_key(self._clock),
                agent_id=settings.agent_id,
                media=await receive(order, files, settings.transcriber),
                origin="mcp",
            )
            collector = Collector(all_tool_text=settings.all_tool_text)
            await self._work(agent, context, collector, caller)
            directories = (*settings.outbound.directories, files.directory)
            rules = replace(settings.outbound, directories=directories)
            return await _result(collector, rules, caller.protocol_version)

    async def _work(
        self, agent: OrderTaker, context: MessageContext, collector: Collector, caller: Caller
    ) -> None:
        async with _progress(caller.report, self._clock) as on_event:
            reply = await agent.get_reply(
                context,
                on_block_reply=collector.add_reply,
                on_tool_result=lambda name, result: collector.add_tool_output(result.outputs),
                on_event=on_event,
                ask=caller.ask,
                elicit=caller.elicit,
            )
        collector.add_reply((Text(reply.text), *reply.media))


async def _result(
    collector: Collector, rules: OutboundRules, protocol_version: str
) -> types.CallToolResult:
    blocks, left_out = await render(collector.media, rules, protocol_version)
    for line in left_out:
        collector.add_reply((Text(line),))
    text = types.TextContent(type="text", text=collector.text())
    return types.CallToolResult(content=[text, *blocks], is_error=False)


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
