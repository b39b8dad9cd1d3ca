"""One request over several rounds."""

from asyncio import Future
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from typing import Any, cast

import pytest

from openclaw.mcp.client import Call
from openclaw.mcp.jsonrpc import ErrorData, ErrorResponse, JsonObject, Message, Request, Response
from openclaw.mcp.negotiation import Handshake
from openclaw.mcp.revisions import REVISIONS
from openclaw.mcp_client.errors import Interrupted, InvalidResult, RemoteError, Unavailable
from openclaw.mcp_client.session import server_session
from openclaw.mcp_client.session.elicitation import decline
from openclaw.mcp_client.session.request_handlers import AskHost, RequestHandlers
from openclaw.mcp_client.session.server_session import MAX_ROUNDS, ServerSession

ASKS: JsonObject = {"resultType": "input_required", "requestState": "on"}
DONE: JsonObject = {"content": []}

Reply = JsonObject | ErrorData | Exception


class ScriptedServer:
    """Answers each request with what comes next, and remembers what it was asked."""

    def __init__(self, session: ServerSession, reply: Callable[[int], Reply]) -> None:
        self._caller, self._reply = session.caller, reply
        self.requests: list[Request] = []
        session.caller.transport = self

    async def send(self, call: Call, answer: "Future[JsonObject]") -> None:
        reply = self._reply(len(self.requests))
        self.requests.append(call.request)
        match reply:
            case Exception():
                raise reply
            case ErrorData():
                self._caller.receive(ErrorResponse(call.id, reply))
            case _:
                self._caller.receive(Response(call.id, reply))

    def post(self, message: Message) -> None:
        pass

    async def deliver(self, message: Message) -> None:
        pass


@asynccontextmanager
async def session(
    reply: Callable[[int], Reply], on_elicitation: AskHost = decline
) -> AsyncGenerator[tuple[ServerSession, ScriptedServer]]:
    handlers = RequestHandlers("fake", (), None, on_elicitation)
    opened = ServerSession("fake", cast("Any", None), handlers, "stdio")
    opened.connection.begin(Handshake(REVISIONS["2026-07-28"]))
    async with opened.running():
        yield opened, ScriptedServer(opened, reply)


async def test_a_call_whose_server_dies_between_rounds_is_not_begun_again() -> None:
    replies: list[Reply] = [ASKS, Unavailable("it ended")]
    async with session(lambda count: replies[count]) as (opened, server):
        with pytest.raises(Interrupted):
            await opened.request("tools/call", {"name": "pay"}, timeout=None)
        assert len(server.requests) == 2


@pytest.mark.parametrize("rounds", [MAX_ROUNDS, MAX_ROUNDS + 1])
async def test_the_result_after_the_last_round_counts(
    monkeypatch: pytest.MonkeyPatch, rounds: int
) -> None:
    monkeypatch.setattr(server_session, "_FIRST_PAUSE", 0.0)
    async with session(lambda count: ASKS if count < rounds else DONE) as (opened, server):
        if rounds == MAX_ROUNDS:
            assert await opened.request("tools/call", {}, timeout=None) == DONE
            assert (server.requests[-1].params or {})["requestState"] == "on"
        else:
            with pytest.raises(InvalidResult, match=f"more than {MAX_ROUNDS} times"):
                await opened.request("tools/call", {}, timeout=None)


VISIT = {"mode": "url", "elicitationId": "e1", "url": "https://a.example/", "message": "Log in"}
REFUSAL = ErrorData(-32042, "log in first", {"elicitations": [VISIT]})


@pytest.mark.parametrize("completes", [True, False])
async def test_a_call_is_made_again_once_the_user_has_visited_the_page_that_it_needs(
    monkeypatch: pytest.MonkeyPatch, completes: bool
) -> None:
    monkeypatch.setattr(server_session, "_URL_PAUSE", 600.0 if completes else 0.01)
    asked: list[JsonObject] = []

    async def agree(name: str, params: Any) -> JsonObject:
        asked.append(dict(params))
        if completes:
            note = "notifications/elicitation/complete"
            opened.caller._on_notification(note, {"elicitationId": "e1"})
        return {"action": "accept"}

    needed = 1 if completes else 2  # without a word from the server, we look again
    async with session(lambda count: REFUSAL if count < needed else DONE, agree) as (opened, _):
        assert await opened.request("tools/call", {}, timeout=None) == DONE
    assert asked == [VISIT]  # once, however often we look


@pytest.mark.parametrize(
    "refusal",
    [REFUSAL, ErrorData(-32042, "odd", {"elicitations": "x"}), ErrorData(-32042, "odd", None)],
)
async def test_a_call_is_refused_if_the_user_does_not_want_to(refusal: ErrorData) -> None:
    async with session(lambda count: refusal) as (opened, server):
        with pytest.raises(RemoteError, match=refusal.message):
            await opened.request("tools/call", {}, timeout=None)
        assert len(server.requests) == 1
