"""A second Ctrl-C leaves where it follows the first, and waits for nothing while an answer is stopped."""

import io
import os
import signal
from pathlib import Path
from typing import cast

import anyio
import pytest

from openclaw.agent.port import Agent, AgentSettings, MessageContext, Reply, TurnListener
from openclaw.cli.chat.conversation import ChatSession
from openclaw.cli.chat.input import MOMENT, Interrupts, LineInput
from openclaw.cli.chat.turn_view import AnswerView
from openclaw.core.clock import SystemClock
from openclaw.media.transcription import NoTranscriber
from openclaw.secrets.redactor import Redactor


class HeldClock(SystemClock):
    """A clock that moves when it is told to."""

    def __init__(self) -> None:
        self.now = 100.0

    def monotonic(self) -> float:
        return self.now


def nowhere() -> None:
    pytest.fail("nobody wanted to leave")


def test_a_press_belongs_to_the_one_before_for_a_moment() -> None:
    clock = HeldClock()
    presses = Interrupts(clock, nowhere)
    assert not presses.lately
    assert not presses.again()
    assert presses.lately
    clock.now += MOMENT / 2
    assert presses.again()
    clock.now += MOMENT * 2
    assert not presses.lately
    assert not presses.again()
    presses.forget()
    assert not presses.again()


class Stubborn:
    """An agent that does not let itself be stopped before it may."""

    def __init__(self) -> None:
        self.asked = anyio.Event()
        self.stopping = anyio.Event()
        self.may_stop = anyio.Event()

    async def refresh(self, agent_id: str, session: str) -> None:
        """Nothing changes."""

    async def reply(self, context: MessageContext, listener: TurnListener) -> Reply:
        self.asked.set()
        try:
            await anyio.sleep_forever()
        finally:
            self.stopping.set()
            with anyio.CancelScope(shield=True):
                await self.may_stop.wait()
        raise AssertionError


async def test_a_second_press_does_not_wait_until_the_answer_is_stopped() -> None:
    agent, left = Stubborn(), anyio.Event()
    said = io.StringIO()

    def leave() -> None:
        left.set()
        agent.may_stop.set()

    settings = AgentSettings(
        id="main",
        temp_root=Path(),
        directories=(),
        audio="auto",
        all_tool_text=False,
        redactor=Redactor(),
        transcriber=NoTranscriber(),
    )
    view, interrupts = AnswerView(said, said, str), Interrupts(SystemClock(), leave)
    context = MessageContext("", "main")
    talk = ChatSession(
        cast("Agent", agent),
        settings,
        view,
        context,
        TurnListener(),
        interrupts,
        {},
        lambda agent, session: [],
    )
    with anyio.fail_after(60):
        async with anyio.create_task_group() as group:
            group.start_soon(talk.run, LineInput(io.StringIO("hello\n")))
            await agent.asked.wait()
            os.kill(os.getpid(), signal.SIGINT)
            await agent.stopping.wait()
            assert not left.is_set()
            os.kill(os.getpid(), signal.SIGINT)
            await left.wait()
    assert "(stopped)" in said.getvalue()
