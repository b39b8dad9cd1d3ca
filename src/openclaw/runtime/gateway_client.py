"""HTTP to a running gateway: requests, a turn's stream of events, and the questions in it."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import anyio
import anyio.to_thread
import orjson
from anyio.abc import TaskGroup

from openclaw.agent.event_codec import (
    blocks_from,
    error_from,
    event_from,
    message_json,
    reply_from,
    result_from,
)
from openclaw.agent.helper_tasks import helper_tasks
from openclaw.agent.port import NOBODY, MessageContext, Notify, Reply, TurnListener
from openclaw.core.content import InboundMedia, Media
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError, OperatorFacing
from openclaw.core.events import Emit
from openclaw.gateway.lock import request_headers
from openclaw.net.http_answer import BrokenOff, EventReader, NotReached, event_of
from openclaw.net.http_request import request

if TYPE_CHECKING:
    from openclaw.media.files import OrderFiles


Json = dict[str, Any]
Read = Callable[[AsyncIterator[bytes]], AsyncIterator[tuple[str, Any]]]

_PIECE = 1 << 20


class GatewayGone(OperatorFacing):
    """Raised when the gateway cannot be reached. `sent` says whether it may have begun the work."""

    def __init__(self, message: str, *, sent: bool) -> None:
        super().__init__(message)
        self.sent = sent


class GatewayClient:
    def __init__(self, url: str, root: Path) -> None:
        self._url = url
        self._root = root
        self.settings: dict[str, Mapping[str, Any]] = {}

    async def request(self, method: str, path: str, body: Json | None = None) -> Json:
        """Send a request that is answered with JSON; raises the gateway's error as our own."""
        content = b"" if body is None else _dumped(body)
        try:
            async with request(method, self._url, path, self._headers(), content) as answer:
                return checked(answer.status, await answer.read())
        except NotReached as error:
            raise gone(error, sent=False) from error
        except BrokenOff as error:
            raise gone(error, sent=method != "GET") from error

    async def reply(self, context: MessageContext, listener: TurnListener = NOBODY) -> Reply:
        handlers = _handlers(listener)
        handlers["accepted"] = lambda data: self.settings.update({data["agent"]: data["settings"]})
        asks = listener.ask is not None or listener.elicit is not None
        async with helper_tasks() as tasks, AsyncExitStack() as stack:
            if asks:
                questions = _Questions(self, listener, tasks)
                handlers |= {"question": questions.ask, "question_closed": questions.close}
            sent = await self._with_files(context, stack)
            whole = listener.on_block_reply or listener.on_tool_result
            body = {
                **message_json(sent),
                "events": listener.on_event is not None,
                "callbacks": whole is not None,
                "questions": asks,
            }
            async with self._stream("/api/messages", body) as events:
                return await _followed(events, handlers, listener.on_event)

    async def forward(self, agent_id: str | None, request: Json, notify: Notify) -> Json:
        """The answer of the gateway's MCP server to one request of revision 2026-07-28."""
        params = request["params"]
        headers = {
            "accept": "application/json, text/event-stream",
            "mcp-protocol-version": "2026-07-28",
            "mcp-method": request["method"],
            "mcp-name": params.get("taskId") or params.get("name") or "",
        }
        query = f"?{urlencode({'agent': agent_id})}" if agent_id else ""
        async with self._stream(f"/mcp{query}", request, headers, _messages) as messages:
            async for _, message in messages:
                if "method" not in message:
                    return message
                await notify(message["method"], message.get("params") or {})
        raise gone(EOFError(), sent=True)

    async def answer_question(self, question: Json, listener: TurnListener) -> None:
        answer = dict(await _answered(question, listener))
        with suppress(NotFound):  # its time was up
            await self.request("POST", f"/api/questions/{question['id']}", answer)

    @asynccontextmanager
    async def scope(
        self, agent: str, servers: Mapping[str, Mapping[str, Any]]
    ) -> AsyncGenerator[AsyncIterator[tuple[str, Any]]]:
        """Have the gateway run MCP servers while this lasts; sends `opened`, then `settled`."""
        body = {"agent": agent, "servers": servers}
        async with self._stream("/api/scopes", body) as events:
            yield events

    async def _with_files(self, context: MessageContext, stack: AsyncExitStack) -> MessageContext:
        """The message with its media in an order's directory, where the gateway may read it."""
        if not context.media:
            return context
        from openclaw.media.files import order_files

        temp = self._root / "tmp"
        files = stack.enter_context(order_files(temp))
        media = [await anyio.to_thread.run_sync(_placed, one, files, temp) for one in context.media]
        return replace(context, media=tuple(media))

    @asynccontextmanager
    async def _stream(
        self,
        path: str,
        body: Json,
        headers: Mapping[str, str] | None = None,
        read: "Read | None" = None,
    ) -> AsyncGenerator[AsyncIterator[tuple[str, Any]]]:
        try:
            async with request(
                "POST", self._url, path, {**self._headers(), **(headers or {})}, _dumped(body)
            ) as answer:
                if answer.status != 200 and read is None:
                    checked(answer.status, await answer.read())
                yield (read or _events)(answer.body)
        except NotReached as error:
            raise gone(error, sent=False) from error
        except BrokenOff as error:
            raise gone(error, sent=True) from error

    def _headers(self) -> dict[str, str]:
        headers = request_headers(self._root, self._url)
        if headers is None:
            raise GatewayGone("the gateway went away", sent=False)
        return headers


async def _followed(
    events: AsyncIterator[tuple[str, Any]],
    handlers: Mapping[str, Callable[[Any], None]],
    on_event: Emit | None,
) -> Reply:
    async for name, data in events:
        if name == "reply":
            return reply_from(data)
        if name == "error":
            raise error_from(data)
        if name in handlers:
            handlers[name](data)
        elif on_event is not None and (event := event_from(name, data)) is not None:
            on_event(event)
    raise BrokenOff("no reply")


class _Questions:
    def __init__(self, client: GatewayClient, listener: TurnListener, tasks: TaskGroup) -> None:
        self._client, self._tasks, self._listener = client, tasks, listener
        self._open: dict[str, anyio.CancelScope] = {}

    def ask(self, question: Json) -> None:
        self._tasks.start_soon(self._asked, question, name="question")

    def close(self, data: Json) -> None:
        if (scope := self._open.pop(data["id"], None)) is not None:
            scope.cancel()

    async def _asked(self, question: Json) -> None:
        with anyio.CancelScope() as scope:
            self._open[question["id"]] = scope
            await self._client.answer_question(question, self._listener)


async def _answered(question: Json, listener: TurnListener) -> Mapping[str, Any]:
    from openclaw.gateway.questions import elicitation_from, permission_from

    if question["kind"] == "permission" and listener.ask is not None:
        request = permission_from(question)
        said = await listener.ask(request)
        action = "accept" if request.allowed_by(said) else "decline"
        return {"action": action, "choice": said.choice, "reason": said.reason}
    if question["kind"] == "elicitation" and listener.elicit is not None:
        return await listener.elicit(*elicitation_from(question))
    return {"action": "decline"}


def _handlers(listener: TurnListener) -> dict[str, Callable[[Any], None]]:
    handlers: dict[str, Callable[[Any], None]] = {}
    on_block_reply, on_tool_result = listener.on_block_reply, listener.on_tool_result
    if on_block_reply is not None:
        handlers["on_block_reply"] = lambda data: on_block_reply(blocks_from(data["blocks"]))
    if on_tool_result is not None:
        handlers["on_tool_result"] = lambda data: on_tool_result(
            data["name"], result_from(data["result"])
        )
    return handlers


def _placed(one: InboundMedia, files: "OrderFiles", temp: Path) -> InboundMedia:
    media = one.media
    if media.path is not None and media.path.resolve().is_relative_to(temp.resolve()):
        return one
    if media.path is not None:
        with media.path.open("rb") as file:
            path = files.save(iter(lambda: file.read(_PIECE), b""), media.mime_type)
    elif media.data is not None:
        path = files.save([media.data], media.mime_type)
    else:
        return one
    return replace(one, media=Media(media.mime_type, path=path, name=media.name))


async def _events(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, Any]]:
    reader = EventReader()
    async for chunk in chunks:
        for name, data in reader.feed(chunk):
            yield name, orjson.loads(data)


async def _messages(chunks: AsyncIterator[bytes]) -> AsyncIterator[tuple[str, Any]]:
    """The JSON-RPC messages in an MCP server's answer: one body, or a stream of events."""
    pending = b""
    async for chunk in chunks:
        pending += chunk
        if pending.startswith(b"{"):
            continue
        *whole, pending = pending.replace(b"\r\n", b"\n").split(b"\n\n")
        for event in map(event_of, whole):
            if event is not None:
                yield event[0], orjson.loads(event[1])
    if pending.strip():
        body = orjson.loads(pending)
        if "jsonrpc" not in body:  # refused before it reached the MCP server
            raise error_from(body["error"])
        yield "", body


def _dumped(body: Json) -> bytes:
    try:
        return orjson.dumps(body)
    except TypeError as error:  # a terminal sent bytes that are not text
        raise InvalidRequest(f"this cannot be sent to the gateway: {error}") from error


def checked(status: int, content: bytes) -> Json:
    try:
        body: Any = orjson.loads(content)
    except ValueError:
        body = {}
    if status < 400:
        return body
    error: Any = body.get("error") if isinstance(body, dict) else None  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType] - any JSON
    if isinstance(error, dict):
        raise error_from(error)  # pyright: ignore[reportUnknownArgumentType] - any JSON
    raise OpenClawError(f"the gateway answered with HTTP status {status}")


def gone(error: Exception, *, sent: bool) -> GatewayGone:
    if sent:
        return GatewayGone(
            f"the gateway went away ({error}); the order may or may not have been carried out",
            sent=True,
        )
    return GatewayGone(f"the gateway cannot be reached: {error}", sent=False)
