"""`POST /v1/responses`, as OpenAI's clients know it."""

import re
from collections.abc import Callable
from contextlib import ExitStack
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.agent.context import MessageContext, Reply
from openclaw.core.errors import InvalidRequest
from openclaw.core.events import Event
from openclaw.core.ids import random_id
from openclaw.gateway.openai_errors import error_body, error_response
from openclaw.gateway.openai_input import agent_of, new_session, order_text, session_of
from openclaw.gateway.reading import Attachments, Json, flag, json_body, objects, text_field
from openclaw.gateway.state import Gateway
from openclaw.gateway.stream import EventStream, Put, WatchedAnswer, frame
from openclaw.gateway.written import Written

_ID = re.compile(r"resp_([0-9a-f]{16})_([0-9a-f]{16})")


async def responses(gateway: Gateway, request: Request) -> Any:
    """One turn."""
    body = await json_body(request)
    order = _Order(gateway, request, body)
    if flag(body, "stream"):
        return EventStream(order.stream, headers=order.headers)
    return WatchedAnswer(order.whole, error_response)


def _previous(body: Json) -> str | None:
    """The session of the response that this one follows: its id names the session."""
    given = text_field(body, "previous_response_id")
    if given is None:
        return None
    found = _ID.fullmatch(given)
    if found is None:
        raise InvalidRequest("is not the id of a response of ours", field="previous_response_id")
    return f"http-{found[1]}"


class _Order:
    """One request: prepared once the answer has begun, so that its files live as long as it does."""

    def __init__(self, gateway: Gateway, request: Request, body: Json) -> None:
        self._gateway = gateway
        self._body = body
        self._agent = agent_of(gateway.house, body.get("model"))
        self._messages = _messages(body)
        previous = _previous(body)
        named = session_of(body, request.headers) or previous
        self._continued = named is not None
        self._session = named or new_session()
        self._turn = random_id()
        # A session that the client named needs no name from us: the id then says nothing of it.
        own = self._session.removeprefix("http-")
        place = own if re.fullmatch(r"[0-9a-f]{16}", own) else random_id()
        self._id = f"resp_{place}_{self._turn}"
        self._item = f"msg_{self._turn}"
        self._created = gateway.clock.now_ms() // 1000
        self.headers = {"x-openclaw-turn": self._turn}

    async def _context(self, files: ExitStack) -> MessageContext:
        attachments = Attachments(
            self._gateway.paths.temp, files, self._gateway.house.transcriber()
        )
        text = await order_text(self._messages, "input", attachments, continued=self._continued)
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
        return JSONResponse(self._done(written.text, reply), headers=self.headers)

    async def stream(self, put: Put) -> None:
        """The answer as it is written."""
        number = 0

        def say(kind: str, **body: Any) -> None:
            nonlocal number
            put(frame({"type": kind, "sequence_number": number, **body}, kind))
            number += 1

        say("response.created", response=self._head("in_progress"))
        say("response.in_progress", response=self._head("in_progress"))
        try:
            await self._streamed(say)
        except Exception as error:  # noqa: BLE001 - the answer has begun: it ends with the error
            told = error_body(error)["error"]
            failure = {"code": "server_error", "message": told["message"]}
            say("response.failed", response={**self._head("failed"), "error": failure})

    async def _streamed(self, say: Callable[..., None]) -> None:
        written = Written()
        place = {"item_id": self._item, "output_index": 0, "content_index": 0}
        say("response.output_item.added", output_index=0, item=self._message("", "in_progress"))
        say("response.content_part.added", **place, part=_part(""))

        def on_event(event: Event) -> None:
            piece = written.on_event(event)
            if piece:
                say("response.output_text.delta", **place, delta=piece, logprobs=[])

        with ExitStack() as files:
            context = await self._context(files)
            async with self._gateway.turn(context) as turn:
                reply = await turn.answer(on_event=on_event)
        rest = written.finish(reply)
        if rest:
            say("response.output_text.delta", **place, delta=rest, logprobs=[])
        text = written.text
        say("response.output_text.done", **place, text=text, logprobs=[])
        say("response.content_part.done", **place, part=_part(text))
        say("response.output_item.done", output_index=0, item=self._message(text, "completed"))
        body = self._done(text, reply)
        say(f"response.{body['status']}", response=body)

    def _done(self, text: str, reply: Reply) -> Json:
        cut = reply.outcome == "limit"
        used = reply.usage
        return {
            **self._head("incomplete" if cut else "completed"),
            "incomplete_details": {"reason": "max_output_tokens"} if cut else None,
            "output": [self._message(text, "completed")],
            "usage": {
                "input_tokens": used.input_tokens,
                "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"reasoning_tokens": 0},
                "total_tokens": used.input_tokens + used.output_tokens,
            },
        }

    def _head(self, status: str) -> Json:
        return {
            "id": self._id,
            "object": "response",
            "created_at": self._created,
            "status": status,
            "model": self._body.get("model"),
            "error": None,
            "incomplete_details": None,
            "instructions": self._body.get("instructions"),
            "metadata": self._body.get("metadata") or {},
            "output": [],
            "parallel_tool_calls": False,
            "previous_response_id": self._body.get("previous_response_id"),
            "tool_choice": "auto",
            "tools": [],
            "usage": None,
        }

    def _message(self, text: str, status: str) -> Json:
        content = [_part(text)] if status == "completed" else []
        return {
            "id": self._item,
            "type": "message",
            "role": "assistant",
            "status": status,
            "content": content,
        }


def _part(text: str) -> Json:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _messages(body: Json) -> list[Json]:
    given = body.get("input")
    messages: list[Json]
    if isinstance(given, str):
        messages = [{"role": "user", "content": given}]
    else:
        messages = objects(given, "input")
    if not messages:
        raise InvalidRequest("is missing", field="input")
    instructions = text_field(body, "instructions")
    told: list[Json] = [{"role": "system", "content": instructions}] if instructions else []
    return [*told, *messages]
