"""A workspace and the tools in it."""

from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path

import pytest

from openclaw.agent.tools.base import NativeTools
from openclaw.agent.tools.exec import Shells
from openclaw.agent.tools.native_tools import native_tools
from openclaw.core.clock import SystemClock
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext, ToolResult
from openclaw.sessions.sqlite.store import SqliteStore, open_sqlite_store

CONTEXT = CallContext(agent="main", session="s", call_id="c")
Call = Callable[..., Awaitable[ToolResult]]


def told(result: ToolResult) -> str:
    """What the model reads, without the frame around what is not ours."""
    note = result.untrusted.note if result.untrusted is not None else ""
    return "\n".join(filter(None, [text_of(result.blocks), note]))


@pytest.fixture
def workspace(tmp_path: Path) -> Path:
    path = tmp_path / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def tools(workspace: Path) -> NativeTools:
    environ = {"PATH": "/usr/bin:/bin", "HOME": "/nowhere", "ACME_KEY": "hunter2"}
    return native_tools("main", workspace, shells=Shells(environ), plugins=False)


@pytest.fixture
def call(tools: NativeTools) -> Call:
    async def call(name: str, /, **arguments: object) -> ToolResult:
        return await tools.call(name, arguments, CONTEXT)

    return call


@pytest.fixture
def ok(call: Call) -> Callable[..., Awaitable[str]]:
    """Call a tool that must not fail, and return its words."""

    async def ok(name: str, /, **arguments: object) -> str:
        result = await call(name, **arguments)
        assert not result.is_error, told(result)
        return told(result)

    return ok


@pytest.fixture
def refused(call: Call) -> Callable[..., Awaitable[str]]:
    """Call a tool that must fail, and return what the model is told."""

    async def refused(name: str, /, **arguments: object) -> str:
        result = await call(name, **arguments)
        assert result.is_error, told(result)
        return told(result)

    return refused


@pytest.fixture
async def store(tmp_path: Path) -> AsyncGenerator[SqliteStore]:
    async with open_sqlite_store(tmp_path / "sessions.db", SystemClock()) as opened:
        yield opened
