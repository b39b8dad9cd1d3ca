"""Orders, and the tasks that they become, as an MCP service; a running gateway does the work."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio

from openclaw.agent.port import Agent, Notify
from openclaw.core.clock import SystemClock
from openclaw.core.errors import OpenClawError, describe
from openclaw.mcp import names
from openclaw.mcp.jsonrpc import INVALID_PARAMS, JsonObject, RpcError, error_data
from openclaw.mcp.server import Acknowledge, Call, Offer, TaskChanged
from openclaw.mcp.tasks import EXTENSION_TASKS, Task, declares_extension
from openclaw.mcp_server import orders
from openclaw.mcp_server.conversation import Peer
from openclaw.mcp_server.order_tasks import OrderTasks
from openclaw.mcp_server.order_tool import TOOLS, Source, offer_of

_MOST_FORWARDED = 48 << 20  # gateways take requests of 64 MB; the text and the rest need room

Forward = Callable[[dict[str, Any], Notify], Awaitable[dict[str, Any] | None]]


@dataclass(frozen=True, slots=True)
class OrderService:
    """Carries out the calls of one tool; `forward` passes a call to a gateway, if one is running."""

    handler: orders.OrderHandler
    tasks: OrderTasks | None = None
    forward: Forward | None = None

    @property
    def offer(self) -> Offer:
        return offer_of(self.handler.program)

    def input_schema(self, tool: str) -> JsonObject | None:
        declared = TOOLS[self.handler.program]
        return declared["inputSchema"] if tool == declared["name"] else None

    async def carry_out(self, call: Call, peer: Peer) -> JsonObject:
        match call.method:
            case names.TOOLS_LIST:
                return {"tools": [TOOLS[self.handler.program]]}
            case names.TOOLS_CALL:
                return await self._call_tool(call, peer)
            case names.LISTEN:
                return await self._listen(call, peer)
            case _:
                return await self._of_task(call, peer)

    async def _call_tool(self, call: Call, peer: Peer) -> JsonObject:
        wanted = TOOLS[self.handler.program]["name"]
        if call.params["name"] != wanted:
            problem = f"there is no tool {call.params['name']!r}; the only one is {wanted!r}"
            raise RpcError(INVALID_PARAMS, problem)
        source: Source = peer.source
        arguments: JsonObject | None = call.params.get("arguments")
        caller = orders.Caller(
            revision=call.revision,
            report=peer.report if peer.wants_progress else None,
            agent_id=source.agent_id,
            session=source.principal.session,
            local=source.local,
        )
        asks = source.principal.may_be_asked and call.client.can("elicitation")
        if call.revision.server_requests:
            roots = call.client.can("roots")
            caller = orders.asked_by_request(caller, peer.ask, asks=asks, roots=roots)
            return await self.handler.take(arguments, caller)
        declares_tasks = declares_extension(call.client.capabilities)
        too_large = self.forward is not None and _media_size(arguments) > _MOST_FORWARDED
        if self.tasks is None or too_large or not (asks or declares_tasks):
            if call.request_state is not None:  # never carry the order out again
                problem = "this client cannot continue with requestState"
                raise RpcError(INVALID_PARAMS, problem)
            return await self.handler.take(arguments, caller)
        return await self._order(self.tasks, call, peer, caller, asks=asks)

    async def _order(
        self, tasks: OrderTasks, call: Call, peer: Peer, caller: orders.Caller, *, asks: bool
    ) -> JsonObject:
        state, principal = call.request_state, peer.source.principal
        arguments: JsonObject | None = call.params.get("arguments")
        if state is None or not tasks.runs(state):
            forwarded = await self._forwarded(call, peer)
            if forwarded is not None:
                return forwarded
        if state is not None:
            answers = call.input_responses
            return await tasks.continue_with_answers(state, arguments, answers, principal)
        wanted = declares_extension(call.client.capabilities)
        return await tasks.order(arguments, caller, principal, tasks=wanted, asks=asks)

    async def _of_task(self, call: Call, peer: Peer) -> JsonObject:
        """`tasks/get`, `tasks/update` and `tasks/cancel`, by this process or a gateway."""
        tasks, id, principal = self.tasks, call.params["taskId"], peer.source.principal
        assert tasks is not None
        if not id.isascii():  # the store can't look up some
            raise RpcError(INVALID_PARAMS, "there is no such task, or it has expired")
        forwarded = None if tasks.runs(id) else await self._forwarded(call, peer)
        if forwarded is not None:
            return forwarded
        match call.method:
            case names.TASKS_GET:
                return EXTENSION_TASKS.view(await tasks.get(id, principal))
            case names.TASKS_UPDATE:
                await tasks.update(id, call.params["inputResponses"], principal)
            case _:
                await tasks.cancel(id, principal)
        return {}

    async def _listen(self, call: Call, peer: Peer) -> JsonObject:
        wanted: list[str] = call.params["notifications"].get("taskIds") or []
        tasks, principal = self.tasks, peer.source.principal
        if tasks is None or not wanted:
            await peer.send(Acknowledge(call.id, {}))
            await anyio.sleep_forever()
            return {}
        if not any(map(tasks.runs, wanted)) and await self._forwarded(call, peer) is not None:
            return {}
        sent = dict[str, Task | None]()
        for id in wanted:
            with suppress(RpcError):
                await tasks.get(id, principal)
                sent[id] = None
        await peer.send(Acknowledge(call.id, {"taskIds": list(sent)} if sent else {}))
        while True:
            for id, before in sent.items():
                with suppress(RpcError):
                    task = await tasks.get(id, principal)
                    if task != before:
                        sent[id] = task
                        await peer.send(TaskChanged(task))
            await tasks.changed(list(sent))

    async def _forwarded(self, call: Call, peer: Peer) -> JsonObject | None:
        """The answer of a running gateway; None without one, or if this is the gateway."""
        if self.forward is None or await self.handler.works_here():
            return None
        request = {"jsonrpc": "2.0", "id": call.id, "method": call.method, "params": call.params}
        try:
            answer = await self.forward(request, peer.notify)
        except OpenClawError as error:
            if call.method != names.TOOLS_CALL:
                return None  # the store's record of a task is valid without the gateway
            return orders.refusal(describe(error))
        if answer is not None and "error" in answer:
            error = error_data(answer["error"])
            raise RpcError(error.code, error.message, error.data)
        return None if answer is None else answer["result"]


def _media_size(arguments: Any) -> int:
    kinds = ("images", "files")
    try:
        return sum(len(item["data"]) for kind in kinds for item in arguments.get(kind, ()))
    except (TypeError, KeyError, AttributeError):
        return 0  # the order is going to be refused


@asynccontextmanager
async def open_service(
    program: str, agent: Agent, agent_id: str | None
) -> AsyncGenerator[OrderService]:
    """The service for one client that started this process."""
    handler = orders.OrderHandler(program, agent, SystemClock(), agent_id)
    if program != "openclaw":
        yield OrderService(handler)
        return
    async with OrderTasks(handler).running() as tasks:
        yield OrderService(handler, tasks, partial(agent.forward, agent_id))
