"""`POST /v1/chat/completions` and `GET /v1/models`, as OpenAI's clients know them."""

from contextlib import ExitStack
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.agent.context import MessageContext, Reply
from openclaw.core.errors import InvalidRequest
from openclaw.core.events import Event
from openclaw.core.ids import random_id
from openclaw.gateway.openai_errors import error_body, error_response
from openclaw.gateway.openai_input import MODEL, agent_of, new_session, order_text, session_of
from openclaw.gateway.reading import Attachments, Json, flag, json_body, objects
from openclaw.gateway.state import Gateway
from openclaw.gateway.stream import EventStream, Put, WatchedAnswer, frame
from openclaw.gateway.written import Written


async def list_models(gateway: Gateway, request: Request) -> Response:
    """The agents, as models."""
    names = [MODEL, *(f"{MODEL}/{agent}" for agent in gateway.house.agents)]
    created = gateway.started // 1000
    data = [{"id": n, "object": "model", "created": created, "owned_by": MODEL} for n in names]
    return JSONResponse({"object": "list", "data": data})


async def chat_completions(gateway: Gateway, request: Request) -> Any:
    """One turn."""
    body = await json_body(request)
    if body.get("n") not in (None, 1):
        raise InvalidRequest("one choice is made for each request", field="n")
    order = _Order(gateway, request, body)
    if flag(body, "stream"):
        return EventStream(order.stream, headers=order.headers)
    return WatchedAnswer(order.whole, error_response)


class _Order:
    """One request: prepared once the answer has begun, so that its files live as long as it does."""

    def __init__(self, gateway: Gateway, request: Request, body: Json) -> None:
        self._gateway = gateway
        self._body = body
        self._agent = agent_of(gateway.house, body.get("model"))
        self._messages = objects(body.get("messages"), "messages")
        if not self._messages:
            raise InvalidRequest("is missing", field="messages")
        named = session_of(body, request.headers)
        self._continued = named is not None
        self._session = named or new_session()
        self._turn = random_id()
        self.headers = {"x-openclaw-turn": self._turn}

    async def _context(self, files: ExitStack) -> MessageContext:
        attachments = Attachments(
            self._gateway.paths.temp, files, self._gateway.house.transcriber()
        )
        text = await order_text(self._messages, "messages", attachments, continued=self._continued)
        return MessageContext(
            text=text,
            session_key=self._session,
            agent_id=self._agent,
            media=tuple(attachments.taken),
            origin="openai",
            idempotency_key=self._turn,
        )

    async def whole(self) -> Response:
        """The answer at once."""
        written = Written()
        with ExitStack() as files:
            context = await self._context(files)
            async with self._gateway.turn(context) as turn:
                reply = await turn.answer(on_block_reply=written.add_block)
                written.finish(reply)
        message = {"role": "assistant", "content": written.text}
        choice = {"index": 0, "message": message, "finish_reason": _reason(reply)}
        body = {**self._head("chat.completion"), "choices": [choice], "usage": usage(reply)}
        return JSONResponse(body, headers=self.headers)

    async def stream(self, put: Put) -> None:
        """The answer as it is written."""
        try:
            await self._streamed(put)
        except Exception as error:  # noqa: BLE001 - the answer has begun: it ends with the error
            put(frame(error_body(error)))
        put(frame("[DONE]"))

    async def _streamed(self, put: Put) -> None:
        written = Written()
        put(self._chunk({"role": "assistant", "content": ""}))

        def on_event(event: Event) -> None:
            piece = written.on_event(event)
            if piece:
                put(self._chunk({"content": piece}))

        with ExitStack() as files:
            context = await self._context(files)
            async with self._gateway.turn(context) as turn:
                reply = await turn.answer(on_event=on_event)
        rest = written.finish(reply)
        if rest:
            put(self._chunk({"content": rest}))
        put(self._chunk({}, _reason(reply)))
        options: Any = self._body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):  # pyright: ignore[reportUnknownMemberType] - any JSON
            head = self._head("chat.completion.chunk")
            put(frame({**head, "choices": [], "usage": usage(reply)}))

    def _chunk(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason}
        return frame({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> Json:
        return {
            "id": f"chatcmpl-{self._turn}",
            "object": kind,
            "created": self._gateway.clock.now_ms() // 1000,
            "model": self._body.get("model"),
        }


def _reason(reply: Reply) -> str:
    return "length" if reply.outcome == "limit" else "stop"


def usage(reply: Reply) -> Json:
    """What the turn cost, all of its requests to models together."""
    return {
        "prompt_tokens": reply.usage.input_tokens,
        "completion_tokens": reply.usage.output_tokens,
        "total_tokens": reply.usage.input_tokens + reply.usage.output_tokens,
    }
