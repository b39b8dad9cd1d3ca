"""What a request of either of OpenAI's interfaces is to the agent: one turn."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from openclaw.agent.context import MessageContext, Reply
from openclaw.core.events import Event
from openclaw.core.ids import random_id
from openclaw.gateway.openai_errors import error_response
from openclaw.gateway.openai_input import agent_of, new_session, order_text, session_of
from openclaw.gateway.reading import Attachments, Json, flag
from openclaw.gateway.state import Gateway
from openclaw.gateway.stream import EventStream, Put, WatchedAnswer
from openclaw.gateway.written import Written


class Order(ABC):
    """One request: prepared once the answer has begun, so that its files live as long as it does.

    `field` is where the messages stand in the request; `previous` is the session that it follows,
    where it does not name one.
    """

    def __init__(
        self,
        gateway: Gateway,
        request: Request,
        body: Json,
        messages: Sequence[Json],
        *,
        field: str,
        previous: str | None = None,
    ) -> None:
        self.gateway = gateway
        self.body = body
        self._agent = agent_of(gateway.house, body.get("model"))
        self._messages = messages
        self._field = field
        named = session_of(body, request.headers) or previous
        self._continued = named is not None
        self.session = named or new_session()
        self.turn = random_id()
        self.headers = {"x-openclaw-turn": self.turn}

    def respond(self) -> Any:
        """The answer, as the request wants it: at once, or as it is written."""
        if flag(self.body, "stream"):
            return EventStream(self.stream, headers=self.headers)
        return WatchedAnswer(self._whole, error_response)

    @abstractmethod
    def rendered(self, text: str, reply: Reply) -> Json:
        """The body of the whole answer."""

    @abstractmethod
    async def stream(self, put: Put) -> None:
        """Put the answer as it is written, to its end or to the error that ended it."""

    async def _whole(self) -> Response:
        written = Written()
        with ExitStack() as files:
            context = await self._context(files)
            async with self.gateway.turn(context) as turn:
                reply = await turn.answer(on_block_reply=written.add_block)
        written.finish(reply)
        return JSONResponse(self.rendered(written.text, reply), headers=self.headers)

    async def write(self, piece: Callable[[str], None]) -> tuple[str, Reply]:
        """Have it answered, each piece of the text as it comes; returns all of it and the reply."""
        written = Written()

        def on_event(event: Event) -> None:
            text = written.on_event(event)
            if text:
                piece(text)

        with ExitStack() as files:
            context = await self._context(files)
            async with self.gateway.turn(context) as turn:
                reply = await turn.answer(on_event=on_event)
        rest = written.finish(reply)
        if rest:
            piece(rest)
        return written.text, reply

    async def _context(self, files: ExitStack) -> MessageContext:
        attachments = Attachments(self.gateway.paths.temp, files, self.gateway.house.transcriber())
        text = await order_text(self._messages, self._field, attachments, continued=self._continued)
        return MessageContext(
            text=text,
            session_key=self.session,
            agent_id=self._agent,
            media=tuple(attachments.taken),
            origin="openai",
            idempotency_key=self.turn,
        )
