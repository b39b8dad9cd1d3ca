"""A client of revision 2026-07-28 that has tasks, over stdio or HTTP, and says exactly what it sends."""

import json
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import anyio
import httpx2

from tests.support.line_wire import Wire, wired

Json = dict[str, Any]

ORDER = "order_openclaw"
TASKS = "io.modelcontextprotocol/tasks"
BOTH: Json = {"elicitation": {"form": {}}, "extensions": {TASKS: {}}}
ASKED: Json = {"elicitation": {"form": {}}}
YES = {"action": "accept", "content": {"answer": "once"}}
_TERMINAL = ("completed", "failed", "cancelled")


class RpcError(Exception):
    """Raised when the server answers with an error."""

    def __init__(self, error: Json) -> None:
        super().__init__(error["message"])
        self.code: int = error["code"]
        self.data: Any = error.get("data")


class TaskClient:
    """Sends requests; `capabilities` go along with each of them."""

    def __init__(self, capabilities: Json = BOTH) -> None:
        self.capabilities = capabilities
        self.notifications: list[Json] = []
        self._last = 0

    def _message(self, method: str, params: Mapping[str, Any]) -> Json:
        self._last += 1
        meta = {
            "io.modelcontextprotocol/protocolVersion": "2026-07-28",
            "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            "io.modelcontextprotocol/clientInfo": {"name": "task-client", "version": "1"},
        }
        sent = {**params, "_meta": {**meta, **params.get("_meta", {})}}
        return {"jsonrpc": "2.0", "id": self._last, "method": method, "params": sent}

    async def _exchange(self, message: Json) -> Json:
        raise NotImplementedError

    async def request(self, method: str, **params: Any) -> Json:
        """The result of a request; raises `RpcError`."""
        answer = await self._exchange(self._message(method, params))
        if "error" in answer:
            raise RpcError(answer["error"])
        return answer["result"]

    async def order(self, message: str, **more: Any) -> Json:
        """What an order is answered with: a result, a task or a question."""
        arguments = {"message": message, **more.pop("arguments", {})}
        return await self.request("tools/call", name=ORDER, arguments=arguments, **more)

    async def get(self, task: str) -> Json:
        """The task now."""
        return await self.request("tasks/get", taskId=task)

    async def until(self, task: str, *statuses: str) -> Json:
        """The task as soon as it has one of these statuses, or has ended."""
        while True:
            found = await self.get(task)
            if found["status"] in (*statuses, *_TERMINAL):
                return found
            await anyio.sleep(0.05)

    async def until_doing(self, task: str, what: str) -> None:
        """Wait until the task says that it does this."""
        with anyio.fail_after(60):
            while what not in (await self.get(task)).get("statusMessage", ""):  # noqa: ASYNC110 - polled
                await anyio.sleep(0.05)

    async def answer(self, task: Json, answer: Json | None = None) -> None:
        """Answer every question of a task in the same way."""
        responses = dict.fromkeys(task["inputRequests"], answer or YES)
        await self.request("tasks/update", taskId=task["taskId"], inputResponses=responses)


class HttpTaskClient(TaskClient):
    """Over the gateway's `/mcp`."""

    def __init__(
        self, http: httpx2.AsyncClient, capabilities: Json = BOTH, token: str | None = None
    ) -> None:
        super().__init__(capabilities)
        self._http = http
        self._token = {"authorization": f"Bearer {token}"} if token else {}

    async def _exchange(self, message: Json) -> Json:
        params = message["params"]
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": message["method"],
            "mcp-name": params.get("taskId") or params.get("name") or "",
            **self._token,
        }
        async with self._http.stream("POST", "/mcp", json=message, headers=headers) as answer:
            if "event-stream" not in answer.headers.get("content-type", ""):
                return json.loads(await answer.aread())
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    told = json.loads(line[6:])
                    if "method" not in told:
                        return told
                    self.notifications.append(told)
        raise EOFError


class StdioTaskClient(TaskClient):
    """Over the pipes of an `openclaw mcp-server` process."""

    def __init__(self, wire: Wire, capabilities: Json = BOTH) -> None:
        super().__init__(capabilities)
        self.wire = wire

    async def _exchange(self, message: Json) -> Json:
        await self.wire.send(message)
        while True:
            told = await self.wire.answer()
            if "method" not in told:
                return told
            self.notifications.append(told)


@asynccontextmanager
async def stdio_task_client(
    command: list[str], environ: Mapping[str, str], capabilities: Json = BOTH
) -> AsyncGenerator[StdioTaskClient]:
    """A client and the server process that it starts."""
    async with wired(command, environ) as wire:
        yield StdioTaskClient(wire, capabilities)
