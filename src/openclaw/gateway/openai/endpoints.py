"""`/v1/chat/completions`, `/v1/models` and `/v1/responses`, as OpenAI's clients know them.

A request to either interface is run as one turn.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import orjson
import pybase64
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.agent.port import (
    NO_LISTENER,
    AgentSettings,
    ClientResult,
    MessageContext,
    Reply,
    TurnListener,
)
from openclaw.agent.transcript import waiting_calls
from openclaw.core.clock import random_id
from openclaw.core.content import Block, Media, text_of
from openclaw.core.errors import InvalidRequest, ModelUnavailable, NotFound
from openclaw.core.events import STARTS_OVER, BlockReply, Event, TextDelta
from openclaw.core.outcome import Outcome
from openclaw.gateway.api.openapi import Json, json_body
from openclaw.gateway.api.routes import Attachments, new_session
from openclaw.gateway.auth import own_session
from openclaw.gateway.event_streams import EventStream, Put, WatchedAnswer, sse_frame
from openclaw.gateway.gateway import Gateway
from openclaw.gateway.openai import requests
from openclaw.gateway.openai import response_shapes as shapes
from openclaw.gateway.owners import find_response, find_session_by_id, response_id
from openclaw.models.choose import ModelOptions
from openclaw.sessions.records import SessionRef, Turn, TurnState

_INLINE_BYTES = 2 * 1024 * 1024
_BETWEEN = "\n\n"


class Written:
    """Collects blocks, pieces and the final answer; returns what to send next."""

    def __init__(self) -> None:
        self._parts: list[str] = []  # finished blocks
        self._open = ""  # the block that is being written

    def on_event(self, event: Event) -> str:
        if isinstance(event, TextDelta):
            return self._add(event.text)
        if isinstance(event, BlockReply):
            return self._close(text_of(event.blocks))
        return ""

    def add_block(self, blocks: tuple[Block, ...]) -> None:
        """Add a finished block, if there are no pieces."""
        self._close(text_of(blocks))

    def start_over(self) -> bool:
        """Discard the current block; false if nothing of it was sent."""
        sent, self._open = bool(self._open), ""
        return sent

    def finish(self, reply: Reply) -> str:
        """What is left to send once the answer is complete."""
        rest = ""
        if not reply.text.startswith(self._open):
            # What was written so far was discarded, and the answer says why.
            rest += self._close(self._open)
        rest += self._close(reply.text)
        for media in reply.media:
            rest += self._close(_shown(media))
        return rest

    @property
    def text(self) -> str:
        return _BETWEEN.join(part for part in self._parts if part)

    def _add(self, piece: str) -> str:
        lead = _BETWEEN if not self._open and any(self._parts) and piece else ""
        self._open += piece
        return lead + piece

    def _close(self, whole: str) -> str:
        """End the block, which is `whole`; returns the part that wasn't sent yet."""
        sent = self._open
        rest = whole[len(sent) :] if whole.startswith(sent) else ""
        out = self._add(rest) if rest else ""
        self._parts.append(self._open)
        self._open = ""
        return out


def _shown(media: Media) -> str:
    name = (media.name or media.mime_type).translate(str.maketrans("", "", "[]()\n"))
    if media.data is not None and media.kind == "image" and len(media.data) <= _INLINE_BYTES:
        encoded = pybase64.b64encode_as_string(media.data)
        return f"![{name}](data:{media.mime_type};base64,{encoded})"
    if media.url is not None:
        return f"[{name}]({media.url})"
    where = f" at {media.path}" if media.path is not None else ""
    return f"[{name}: {media.mime_type}{where}]"


_WHOLE = ("stop", "tool_calls")


def reason_of(reply: Reply) -> str:
    """Why the answer ended: stop, length, content_filter or tool_calls."""
    if reply.outcome == Outcome.LIMIT:
        return "length"
    if reply.calls:
        return "tool_calls"
    return reply.finish_reason if reply.finish_reason in ("length", "content_filter") else "stop"


@dataclass(eq=False)
class CompletionRequest(ABC):
    """One request, prepared once the answer has begun, so that its files last until the end."""

    place: ClassVar[str]  # where the messages are in the request

    gateway: Gateway
    settings: AgentSettings
    request: Request
    body: Json
    messages: Sequence[Json]
    options: ModelOptions
    session: str = ""
    turn: str = field(default_factory=random_id)
    _continued: bool = False
    _results: Sequence[ClientResult] = ()

    def __post_init__(self) -> None:
        requests.order_index(self.messages, self.place)
        self.agent = self.settings.id
        self.headers = {"x-openclaw-turn": self.turn}

    async def join(self, previous: str | None = None) -> None:
        """Find the session: named, continued, or waiting for a result."""
        waiting = None
        id, results = requests.results_of(self.messages, self.place)
        if id is not None:
            self._results = results
            session = await find_session_by_id(self.gateway, self.request, id)
            if session is None or session.agent != self.agent:
                message = "no call with this id is waiting for a result"
                raise InvalidRequest(message, field="tool_call_id")
            waiting = session.key
        if previous is not None and waiting is not None and previous != waiting:
            raise InvalidRequest("the call belongs to another conversation", field="call_id")
        followed = previous or waiting
        named = requests.session_of(self.request) or followed
        if self._results and named != followed:
            raise InvalidRequest("the call belongs to another session", field="tool_call_id")
        self._continued = named is not None
        self.session = named or own_session(self.request.scope, new_session())

    def respond(self) -> Any:
        if requests.typed(self.body.get("stream"), bool, "stream"):
            return EventStream(self.stream, headers=self.headers)
        return WatchedAnswer(self._whole, requests.error_response)

    @abstractmethod
    def rendered(self, text: str, reply: Reply) -> Json:
        """The body of the whole answer."""

    @abstractmethod
    async def stream(self, put: Put) -> None:
        """Put the answer as it is written, ending with its end or its error."""

    async def _whole(self) -> Response:
        written = Written()
        reply = await self._answered(TurnListener(on_block_reply=written.add_block))
        written.finish(reply)
        return JSONResponse(self.rendered(written.text, reply), headers=self.headers)

    async def write(
        self, piece: Callable[[str], None], start_over: Callable[[str], None]
    ) -> tuple[str, Reply]:
        """Call `piece` with each piece of the text as it comes; returns all of it and the reply.

        If the last block sent is discarded, `start_over` gets the text before it.
        """
        written = Written()

        def on_event(event: Event) -> None:
            if event == STARTS_OVER and written.start_over():
                start_over(written.text)
            if text := written.on_event(event):
                piece(text)

        reply = await self._answered(TurnListener(on_event=on_event))
        if rest := written.finish(reply):
            piece(rest)
        return written.text, reply

    async def _answered(self, listener: TurnListener) -> Reply:
        """The agent's reply. If JSON was requested, the reply is JSON and nothing else, or this raises."""
        with ExitStack() as files:
            attachments = Attachments(self.gateway.paths.temp, files, self.settings.transcriber)
            order = await requests.order_text(
                self.messages, self.place, attachments, continued=self._continued
            )
            context = MessageContext(
                text=order.text,
                typed=order.typed,
                session_key=self.session,
                agent_id=self.agent,
                media=tuple(attachments.taken),
                origin="openai",
                idempotency_key=self.turn,
                thinking=requests.effort_of(self.body),
                options=self.options,
                results=tuple(self._results),
            )
            structured = self.options.structured
            reply = await self.gateway.answer(context, NO_LISTENER if structured else listener)
        if not structured:
            return reply
        if reason_of(reply) == "stop":  # a truncated answer says so itself
            try:
                orjson.loads(reply.text)
            except orjson.JSONDecodeError as error:
                raise ModelUnavailable(
                    f"the model's answer is not the JSON that was asked for: {error}",
                    hint="ask again, or use a model that supports structured output",
                ) from None
        return replace(reply, media=())


_STARTS_OVER = "\n\n[The connection to the model broke. The answer starts over.]\n\n"


async def list_models(gateway: Gateway, request: Request) -> Response:
    return JSONResponse({"object": "list", "data": list(_models(gateway).values())})


async def show_model(gateway: Gateway, request: Request) -> Response:
    name = request.path_params["model"]
    found = _models(gateway).get(name)
    if found is None:
        raise requests.unknown_model(name)
    return JSONResponse(found)


def _models(gateway: Gateway) -> dict[str, Json]:
    names = [requests.MODEL, *(f"{requests.MODEL}/{agent}" for agent in gateway.backend.agents())]
    created = gateway.started // 1000
    return {
        name: {"id": name, "object": "model", "created": created, "owned_by": requests.MODEL}
        for name in names
    }


async def chat_completions(gateway: Gateway, request: Request) -> Any:
    body = await json_body(request)
    options = requests.chat_options(body)
    messages = requests.objects(body.get("messages"), "messages")
    if not messages:
        raise InvalidRequest("is missing", field="messages")
    settings = await gateway.backend.agent.settings(requests.agent_of(body.get("model")))
    order = _Completion(gateway, settings, request, body, messages, options)
    await order.join()
    return order.respond()


class _Completion(CompletionRequest):
    place = "messages"

    def rendered(self, text: str, reply: Reply) -> Json:
        message: Json = {"role": "assistant", "content": text, "refusal": None, "annotations": []}
        if reply.calls:
            message |= {"content": text or None, "tool_calls": self._tool_calls(reply)}
        reason = reason_of(reply)
        choice = {"index": 0, "message": message, "finish_reason": reason, "logprobs": None}
        return {**self._head("chat.completion"), "choices": [choice], "usage": usage(reply)}

    async def stream(self, put: Put) -> None:
        try:
            await self._streamed(put)
        except Exception as error:  # noqa: BLE001 - the answer has begun: it ends with the error
            put(sse_frame(requests.error_body(error)))
        put(sse_frame("[DONE]"))

    async def _streamed(self, put: Put) -> None:
        put(self._chunk({"role": "assistant", "content": ""}))

        def piece(text: str) -> None:
            put(self._chunk({"content": text}))

        # What was sent cannot be taken back, so say that it no longer counts.
        _, reply = await self.write(piece, lambda _: piece(_STARTS_OVER))
        for index, call in enumerate(self._tool_calls(reply)):
            put(self._chunk({"tool_calls": [{"index": index, **call}]}))
        put(self._chunk({}, reason_of(reply)))
        options: Any = self.body.get("stream_options")
        if isinstance(options, dict) and options.get("include_usage"):  # pyright: ignore[reportUnknownMemberType] - any JSON
            head = self._head("chat.completion.chunk")
            put(sse_frame({**head, "choices": [], "usage": usage(reply)}))

    def _tool_calls(self, reply: Reply) -> list[Json]:
        return [
            {
                "id": requests.call_id(reply.session_id, call.id),
                "type": "function",
                "function": {"name": call.name, "arguments": call.arguments},
            }
            for call in reply.calls
        ]

    def _chunk(self, delta: Json, reason: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "finish_reason": reason, "logprobs": None}
        return sse_frame({**self._head("chat.completion.chunk"), "choices": [choice]})

    def _head(self, kind: str) -> Json:
        return {
            "id": f"chatcmpl-{self.turn}",
            "object": kind,
            "created": self.gateway.clock.now_ms() // 1000,
            "model": self.body.get("model"),
        }


def usage(reply: Reply) -> Json:
    used = reply.usage
    return {
        "prompt_tokens": used.input_tokens,
        "prompt_tokens_details": {"cached_tokens": used.cache_read_tokens},
        "completion_tokens": used.output_tokens,
        "completion_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
        "total_tokens": used.input_tokens + used.output_tokens,
    }


_STATUS = {
    TurnState.OK: "completed",
    TurnState.RUNNING: "in_progress",
    TurnState.CANCELLED: "cancelled",
    TurnState.ERROR: "failed",
    TurnState.LOST: "failed",
}


async def responses(gateway: Gateway, request: Request) -> Any:
    body = await json_body(request)
    options = requests.response_options(body)
    messages = await _with_references(gateway, request, _messages(body))
    settings = await gateway.backend.agent.settings(requests.agent_of(body.get("model")))
    order = _Response(gateway, settings, request, body, messages, options)
    previous = None
    if (given := requests.text_field(body, "previous_response_id")) is not None:
        session, _ = await find_response(gateway, request, given)
        if session.agent != settings.id:
            text = f"it came from '{requests.MODEL}/{session.agent}', not from this request's model"
            raise InvalidRequest(text, field="previous_response_id")
        previous = session.key
    await order.join(previous)
    return order.respond()


async def show_response(gateway: Gateway, request: Request) -> Response:
    target: tuple[SessionRef, Turn] = request.state.target
    session, turn = target
    history = await gateway.backend.store.history(session, since_compaction=False)
    entries = [entry for entry in history if entry.turn == turn.id]
    said = shapes.text_of_turn(entries)
    status = _STATUS[turn.state]
    item = shapes.message_id(session.id, turn.id)
    output = [shapes.message(item, said, "completed")] if said else []
    if turn.state is TurnState.OK:
        output += shapes.function_calls(turn.id, session.id, waiting_calls(entries).values())
    failure = {"code": "server_error", "message": "the turn did not finish"}
    body = shapes.response_body(
        request.path_params["response"],
        turn.started_ms // 1000,
        status,
        {"model": f"{requests.MODEL}/{session.agent}"},
    )
    error = failure if status == "failed" else None
    return JSONResponse({**body, "error": error, "output": output})


class _Response(CompletionRequest):
    place = "input"
    _id = ""
    _session_id = ""
    _created = 0

    async def join(self, previous: str | None = None) -> None:
        """Make the session's id part of the response's, so that it can be found again."""
        await super().join(previous)
        session = await self.gateway.backend.store.open_session(self.agent, self.session)
        self._session_id = session.id
        self._id = response_id(session.id, self.turn)
        self._created = self.gateway.clock.now_ms() // 1000

    async def stream(self, put: Put) -> None:
        number = 0

        def say(kind: str, **body: Any) -> None:
            nonlocal number
            put(sse_frame({"type": kind, "sequence_number": number, **body}, kind))
            number += 1

        say("response.created", response=self._head("in_progress"))
        say("response.in_progress", response=self._head("in_progress"))
        try:
            await self._streamed(say)
        except Exception as error:  # noqa: BLE001 - the answer has begun: it ends with the error
            details = requests.error_body(error)["error"]
            failure = {"code": "server_error", "message": details["message"]}
            say("response.failed", response={**self._head("failed"), "error": failure})

    async def _streamed(self, say: Callable[..., None]) -> None:
        item = _Item(say, shapes.message_id(self._session_id, self.turn), 0)

        def start_over(before: str) -> None:
            nonlocal item
            item.end("incomplete")
            number = item.index + 1
            item = _Item(say, shapes.message_id(self._session_id, self.turn, number), number)
            if before:
                item.add(before)

        text, reply = await self.write(lambda text: item.add(text), start_over)
        item.end("completed" if reason_of(reply) in _WHOLE else "incomplete")
        calls = shapes.function_calls(self.turn, reply.session_id, reply.calls)
        for at, call in enumerate(calls, item.index + 1):
            begun = {**call, "arguments": "", "status": "in_progress"}
            place = {"item_id": call["id"], "output_index": at}
            done = {"name": call["name"], "arguments": call["arguments"]}
            say("response.output_item.added", output_index=at, item=begun)
            say("response.function_call_arguments.delta", **place, delta=call["arguments"])
            say("response.function_call_arguments.done", **place, **done)
            say("response.output_item.done", output_index=at, item=call)
        body = self.rendered(text, reply, item.id)
        say(f"response.{body['status']}", response=body)

    def rendered(self, text: str, reply: Reply, item: str | None = None) -> Json:
        reason, used = reason_of(reply), reply.usage
        whole = reason in _WHOLE
        cut = {"length": "max_output_tokens"}.get(reason, reason)
        default = shapes.message_id(reply.session_id, self.turn)
        return {
            **self._head("completed" if whole else "incomplete", ended=True),
            "incomplete_details": None if whole else {"reason": cut},
            "output": [
                shapes.message(item or default, text, "completed" if whole else "incomplete"),
                *shapes.function_calls(self.turn, reply.session_id, reply.calls),
            ],
            "usage": {
                "input_tokens": used.input_tokens,
                "input_tokens_details": {
                    "cached_tokens": used.cache_read_tokens,
                    "cache_write_tokens": 0,
                },
                "output_tokens": used.output_tokens,
                "output_tokens_details": {"reasoning_tokens": used.reasoning_tokens},
                "total_tokens": used.input_tokens + used.output_tokens,
            },
        }

    def _head(self, status: str, *, ended: bool = False) -> Json:
        now = self.gateway.clock.now_ms() // 1000 if ended else None
        return shapes.response_body(self._id, self._created, status, self.body, now)


class _Item:
    def __init__(self, say: Callable[..., None], name: str, index: int) -> None:
        self.id = name
        self.index = index
        self._say = say
        self._text = ""
        self._place = {"item_id": name, "output_index": index, "content_index": 0}
        item = shapes.message(name, "", "in_progress")
        say("response.output_item.added", output_index=index, item=item)
        say("response.content_part.added", **self._place, part=shapes.part(""))

    def add(self, text: str) -> None:
        self._text += text
        self._say("response.output_text.delta", **self._place, delta=text, logprobs=[])

    def end(self, status: str) -> None:
        text = self._text
        self._say("response.output_text.done", **self._place, text=text, logprobs=[])
        self._say("response.content_part.done", **self._place, part=shapes.part(text))
        message = shapes.message(self.id, text, status)
        self._say("response.output_item.done", output_index=self.index, item=message)


def _messages(body: Json) -> list[Json]:
    given = body.get("input")
    if isinstance(given, str):
        given = {"role": "user", "content": given}
    # Clients send back a model's reasoning with its answer; it isn't a message.
    messages = [one for one in requests.objects(given, "input") if one.get("type") != "reasoning"]
    if not messages:
        raise InvalidRequest("is missing", field="input")
    instructions = requests.text_field(body, "instructions")
    system: list[Json] = [{"role": "system", "content": instructions}] if instructions else []
    return [*system, *messages]


async def _with_references(
    gateway: Gateway, request: Request, messages: Sequence[Json]
) -> list[Json]:
    """The messages with the items of earlier responses in place of references to them."""
    return [
        await _referenced(gateway, request, str(message.get("id")), f"input[{number}]")
        if message.get("type") == "item_reference"
        else message
        for number, message in enumerate(messages)
    ]


async def _referenced(gateway: Gateway, request: Request, id: str, place: str) -> Json:
    item = None
    if (where := shapes.place_of_item(id)) is not None:
        with suppress(NotFound):
            session, turn = await find_response(gateway, request, response_id(*where))
            history = await gateway.backend.store.history(session, since_compaction=False)
            entries = [entry for entry in history if entry.turn == turn.id]
            item = shapes.referenced_item(id, entries, session.id)
    if item is None:
        raise InvalidRequest(f"there is no item '{id}'", field=place)
    return item
