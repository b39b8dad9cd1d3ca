"""A client of the official SDK, our agent as a real process, and a scripted model behind it."""

import json
import os
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import anyio
import pytest
from acp import spawn_agent_process
from acp.client.connection import ClientSideConnection
from acp.schema import (
    AcceptElicitationResponse,
    AllowedOutcome,
    DeniedOutcome,
    McpServerStdio,
    PermissionOption,
    RequestPermissionResponse,
    ToolCallUpdate,
)
from tests.support.fake_server import command

BIN = Path(sys.executable).parent
_LINE = 50 * 1024 * 1024


@dataclass
class Person:
    """The client's side: it keeps every update, and answers questions as it is told to."""

    updates: list[Any] = field(default_factory=list[Any])
    asked: list[ToolCallUpdate] = field(default_factory=list[ToolCallUpdate])
    offered: list[str] = field(default_factory=list[str])
    answers: str | None = "allow_once"
    forms: list[str] = field(default_factory=list[str])
    agent: Any = None
    _changed: anyio.Event = field(default_factory=anyio.Event)

    def on_connect(self, conn: Any) -> None:
        self.agent = conn

    async def session_update(self, session_id: str, update: Any, **kwargs: Any) -> None:
        self.updates.append(update)
        self._changed.set()
        self._changed = anyio.Event()

    async def request_permission(
        self,
        session_id: str,
        tool_call: ToolCallUpdate,
        options: list[PermissionOption],
        **kwargs: Any,
    ) -> RequestPermissionResponse:
        self.asked.append(tool_call)
        self.offered = [option.kind for option in options]
        if self.answers is None:
            return RequestPermissionResponse(outcome=DeniedOutcome(outcome="cancelled"))
        chosen = next(option for option in options if option.kind == self.answers)
        return RequestPermissionResponse(
            outcome=AllowedOutcome(outcome="selected", option_id=chosen.option_id)
        )

    async def create_elicitation(self, message: str, mode: Any, **kwargs: Any) -> Any:
        self.forms.append(message)
        return AcceptElicitationResponse(action="accept", content={"colour": "red"})

    def of(self, kind: str) -> list[Any]:
        """The updates of this kind, in order."""
        return [one for one in self.updates if one.session_update == kind]

    def text(self, kind: str = "agent_message_chunk") -> str:
        """The words of these chunks, put together."""
        return "".join(getattr(one.content, "text", "") for one in self.of(kind))

    async def seen(self, kind: str) -> Any:
        """The first update of this kind, as soon as it is there."""
        with anyio.fail_after(90):
            while not self.of(kind):
                await self._changed.wait()
        return self.of(kind)[0]


@dataclass(frozen=True)
class Installation:
    """A state directory with a configuration, and a directory to work in."""

    state: Path
    cwd: Path

    def configure(self, model_url: str, **more: Any) -> None:
        config: dict[str, Any] = {
            "dataflow": {"mode": "off"},
            "models": {
                "providers": {
                    "acme": {
                        "baseUrl": f"{model_url}/v1",
                        "apiKey": "secret://env/ACME_KEY",
                        "api": "openai-completions",
                        "models": [
                            {"id": "scripted", "input": ["text", "image"]},
                            {"id": "other", "input": ["text"]},
                        ],
                    }
                }
            },
            "agents": {"defaults": {"model": "acme/scripted"}},
        } | more
        (self.state / "openclaw.json").write_text(json.dumps(config))

    @property
    def environ(self) -> dict[str, str]:
        # Coverage's own variables go along, so that what runs in the child counts.
        kept = {k: v for k, v in os.environ.items() if k in ("PATH", "HOME") or k[:3] == "COV"}
        return {**kept, "OPENCLAW_STATE_DIR": str(self.state), "ACME_KEY": "acme-key-0123456789"}


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    for name in ("state", "project"):
        (tmp_path / name).mkdir(mode=0o700)
    return Installation(tmp_path / "state", tmp_path / "project")


Connect = Callable[..., AbstractAsyncContextManager[tuple[ClientSideConnection, Person]]]


@pytest.fixture
def connect(installation: Installation) -> Connect:
    @asynccontextmanager
    async def connected(
        *arguments: str,
    ) -> AsyncGenerator[tuple[ClientSideConnection, Person]]:
        person = Person()
        async with spawn_agent_process(
            person,  # pyright: ignore[reportArgumentType] - it offers no files and no terminals
            str(BIN / "openclaw"),
            "acp",
            *arguments,
            env=installation.environ,
            transport_kwargs={"limit": _LINE, "stderr": None, "shutdown_timeout": 60.0},
            use_unstable_protocol=True,
        ) as (connection, _):
            await connection.initialize(protocol_version=1)
            yield connection, person

    return connected


def _stdio(name: str, spec: dict[str, Any]) -> McpServerStdio:
    program, arguments = command(spec)
    return McpServerStdio(name=name, command=program, args=arguments, env=[])


@pytest.fixture
def stdio() -> Callable[[str, dict[str, Any]], McpServerStdio]:
    """A fake MCP server as a client hands it over."""
    return _stdio
