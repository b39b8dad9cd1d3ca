"""From a client's order to the agent, and from its reply to the result of the call."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

import pytest

from openclaw.agent.port import (
    NO_LISTENER,
    Agent,
    AgentSettings,
    MessageContext,
    Reply,
    TurnListener,
)
from openclaw.core.clock import SystemClock
from openclaw.core.errors import OperatorFacing
from openclaw.mcp.revisions import V2025_11_25
from openclaw.mcp_server.orders import Caller, OrderHandler, _progress
from openclaw.media.transcription import NoTranscriber
from openclaw.secrets.redactor import Redactor


async def _unheard(progress: float, total: float | None = None, message: str | None = None) -> None:
    return


async def test_an_order_with_progress_fails_with_its_real_cause() -> None:
    with pytest.raises(OperatorFacing, match="no model"):
        async with _progress(_unheard, SystemClock()):
            raise OperatorFacing("no model is configured")


@dataclass
class Answering:
    """An agent that answers, or fails."""

    place: Path
    failure: Exception | None = None
    asked: list[MessageContext] = field(default_factory=list[MessageContext])

    async def settings(self, agent_id: str | None = None) -> AgentSettings:
        return AgentSettings(
            id=agent_id or "main",
            temp_root=self.place,
            directories=(self.place,),
            audio="auto",
            all_tool_text=False,
            redactor=Redactor(),
            transcriber=NoTranscriber(),
        )

    async def reply(self, context: MessageContext, listener: TurnListener = NO_LISTENER) -> Reply:
        self.asked.append(context)
        if self.failure is not None:
            raise self.failure
        return Reply(f"You said: {context.text}", "id", "turn")


def orders(agent: Answering) -> OrderHandler:
    return OrderHandler("openclaw", cast("Agent", agent), SystemClock(), None)


def caller(agent_id: str | None = None) -> Caller:
    return Caller(V2025_11_25, None, agent_id=agent_id, turn="k", local=False)


async def test_an_order_reaches_the_agent_and_its_reply_the_client(tmp_path: Path) -> None:
    agent = Answering(tmp_path)
    order = {"message": "Hello", "sessionKey": "s"}
    result = await orders(agent).take(order, caller("research"))
    assert result["content"] == [{"type": "text", "text": "You said: Hello"}]
    assert not result.get("isError")
    (context,) = agent.asked
    assert (context.text, context.session_key, context.agent_id) == ("Hello", "s", "research")
    assert (context.origin, context.idempotency_key) == ("mcp", "k")


async def test_an_order_without_a_session_gets_one_of_its_own(tmp_path: Path) -> None:
    agent = Answering(tmp_path)
    for _ in range(2):
        await orders(agent).take({"message": "Hello"}, caller())
    first, second = [context.session_key for context in agent.asked]
    assert first != second
    assert first.startswith("mcp-")


@pytest.mark.parametrize(
    ("failure", "says"),
    [
        (OperatorFacing("no model is configured", hint="openclaw init"), "(openclaw init)"),
        (ValueError("a defect"), "unexpected ValueError; see the server's log"),
    ],
)
async def test_an_order_that_fails_says_why(tmp_path: Path, failure: Exception, says: str) -> None:
    result = await orders(Answering(tmp_path, failure)).take({"message": "Hello"}, caller())
    assert result["isError"]
    assert says in result["content"][0]["text"]
