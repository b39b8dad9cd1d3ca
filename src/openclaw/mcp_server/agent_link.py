"""The agent behind the server: opened with the first order, closed with the connection."""

import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, Unpack, cast

import anyio
from anyio.abc import TaskStatus

from openclaw.agent.port import MessageContext, Reply, TurnListener
from openclaw.core.errors import OpenClawError
from openclaw.mcp_server.outbound import OutboundRules
from openclaw.media.transcription import Transcriber

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class OrderSettings:
    """What taking an order for one agent depends on."""

    agent_id: str
    all_tool_text: bool
    temp_root: Path
    outbound: OutboundRules
    transcriber: Transcriber


class OrderTaker(Protocol):
    """What the server needs of an agent."""

    def order_settings(self, agent_id: str | None) -> OrderSettings:
        """How this agent takes orders, the default one where none is named. NotFound if unknown."""
        ...

    async def get_reply(self, context: MessageContext, **listener: Unpack[TurnListener]) -> Reply:
        """Answer one message."""
        ...


OpenAgent = Callable[[], AbstractAsyncContextManager[OrderTaker]]
"""Opens the agent."""


class AgentLink:
    """Opens the agent when it is first wanted. A failure is told to who waits and tried again next time.

    The agent is opened and closed in one task, `run`, because what it holds must be.
    """

    def __init__(self, open_agent: OpenAgent) -> None:
        self._open = open_agent
        self._wanted = anyio.Event()
        self._settled = anyio.Event()
        self._agent: OrderTaker | None = None
        self._failure: OpenClawError | None = None

    async def get(self) -> OrderTaker:
        """The agent, as soon as it is there; raises what kept it from opening."""
        if self._agent is not None:
            return self._agent
        self._wanted.set()
        settled = self._settled
        await settled.wait()
        if self._agent is None:
            raise self._failure or OpenClawError("the agent is closed")
        return self._agent

    async def run(self, *, task_status: TaskStatus[None] = anyio.TASK_STATUS_IGNORED) -> None:
        """Hold the agent until cancelled."""
        task_status.started()
        while True:
            await self._wanted.wait()
            try:
                async with self._open() as agent:
                    self._agent = agent
                    self._settled.set()
                    await anyio.sleep_forever()
            except Exception as error:  # noqa: BLE001 (the server goes on, whatever the agent does)
                self._failure = _failure(error)
            finally:
                self._agent = None
            settled, self._settled, self._wanted = self._settled, anyio.Event(), anyio.Event()
            settled.set()


def _failure(error: Exception) -> OpenClawError:
    """What is told to those who wait. A group's first error of ours stands for the group."""
    inside = list(_leaves(error))
    own = next((one for one in inside if isinstance(one, OpenClawError)), None)
    if own is not None:
        logger.warning("the agent cannot be opened: %s", own)
        return own
    logger.error("the agent broke down", exc_info=error)
    return OpenClawError(f"unexpected {type(inside[0]).__name__}; see the server's log")


def _leaves(error: Exception) -> Iterator[Exception]:
    if isinstance(error, ExceptionGroup):
        group = cast("ExceptionGroup[Exception]", error)
        for one in group.exceptions:
            yield from _leaves(one)
    else:
        yield error
