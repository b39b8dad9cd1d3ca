"""Calls that a server carries out as tasks: both forms, through the whole bridge, over real pipes."""

import json
import os
import sqlite3
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager, closing, suppress
from pathlib import Path

import anyio
import pytest
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import McpInstallation, open_gateway_runtime, until
from tests.support.task_server import task_server_entry

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.content import text_of
from openclaw.core.tools import PENDING, CallContext, EarlierCall, JsonObject, ToolResult
from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.subprocess

ENVIRON = {"PATH": os.environ["PATH"]}
FORMS = ("2025-11-25", "2026-07-28")
RULES = [
    Step(when="Dig.", role="user", calls=(("mcp_s_work", {"deep": True}),)),
    Step(when="Go on.", role="user", text="Well."),
    Step(role="tool", text="It said {last}"),
]


async def no_elicit(server: str, params: JsonObject) -> JsonObject:
    return {"action": "decline"}


@asynccontextmanager
async def opened(root: Path, form: str, **more: bool) -> AsyncGenerator[McpInstallation]:
    config = McpServerConfig.model_validate({**task_server_entry(root, form), **more})
    async with open_gateway_runtime(
        root, {"s": config}, environ=ENVIRON, on_elicitation=no_elicit
    ) as installation:
        yield installation


def lines(root: Path, name: str) -> list[str]:
    file = root / name
    return file.read_text().splitlines() if file.exists() else []


@pytest.mark.parametrize("form", FORMS)
async def test_a_call_becomes_a_task_whose_result_is_fetched(tmp_path: Path, form: str) -> None:
    progress: list[str] = []
    handles: list[JsonObject] = []

    async def on_task(handle: JsonObject) -> None:
        handles.append(handle)

    async with opened(tmp_path, form) as installation:
        context = CallContext("main", "s", "c1", progress=progress.append, on_task=on_task)
        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await installation.tools().call("mcp_s_work", {}, context))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: bool(progress))
            (tmp_path / "done").touch()
        again = CallContext("main", "s", "c2", earlier=EarlierCall(handles[0]))
        fetched = await installation.tools().call("mcp_s_work", {}, again)
    assert "t1 found gold" in text_of(results[0].blocks)
    assert "digging for t1" in progress[0]
    assert "t1 found gold" in text_of(fetched.blocks)
    assert len(lines(tmp_path, "calls")) == 1


@pytest.mark.parametrize("form", FORMS)
async def test_a_task_asks_the_person_on_whose_behalf_it_works(tmp_path: Path, form: str) -> None:
    asked: list[str] = []

    async def elicit(server: str, params: JsonObject) -> JsonObject:
        asked.append(params["message"])
        return {"action": "accept", "content": {"colour": "blue"}}

    async with opened(tmp_path, form) as installation:
        context = CallContext("main", "s", "c1", elicit=elicit)
        result = await installation.tools().call("mcp_s_ask", {}, context)
    assert asked == ["Which colour?"]
    assert "t1 found blue" in text_of(result.blocks)


@pytest.mark.parametrize("form", FORMS)
async def test_a_task_that_fails_is_a_failed_call(tmp_path: Path, form: str) -> None:
    async with opened(tmp_path, form) as installation:
        result = await installation.call("mcp_s_fail")
    assert result.is_error
    assert "the shovel broke" in text_of(result.blocks)


async def test_the_first_call_of_a_lazy_server_is_a_task_too(tmp_path: Path) -> None:
    for _ in range(2):  # the second time its tools are known before it runs
        async with opened(tmp_path, "2025-11-25", lazy=True) as installation:
            result = await installation.call("mcp_s_fail")
        assert "the shovel broke" in text_of(result.blocks)


@pytest.mark.parametrize("form", FORMS)
async def test_a_task_is_cancelled_with_the_call(tmp_path: Path, form: str) -> None:
    progress: list[str] = []
    async with opened(tmp_path, form) as installation:
        context = CallContext("main", "s", "c1", progress=progress.append)
        async with anyio.create_task_group() as group:
            group.start_soon(installation.tools().call, "mcp_s_work", dict[str, str](), context)
            await until(lambda: bool(progress))
            group.cancel_scope.cancel()
    assert lines(tmp_path, "cancelled") == ["t1"]


async def test_a_task_that_its_server_forgot_may_or_may_not_have_happened(tmp_path: Path) -> None:
    handle = {"id": "never", "extension": True, "pollMs": 50}
    async with opened(tmp_path, "2026-07-28") as installation:
        context = CallContext("main", "s", "c1", earlier=EarlierCall(handle))
        result = await installation.tools().call("mcp_s_work", {}, context)
    assert result.is_error
    assert "may or may not have happened" in text_of(result.blocks)
    assert lines(tmp_path, "calls") == []


async def test_a_task_that_still_works_is_left_for_later(tmp_path: Path) -> None:
    async with opened(tmp_path, "2025-11-25") as installation:
        handles: list[JsonObject] = []

        async def on_task(handle: JsonObject) -> None:
            handles.append(handle)
            raise RuntimeError("the program dies here")

        context = CallContext("main", "s", "c1", on_task=on_task)
        await installation.tools().call("mcp_s_work", {}, context)
        look = CallContext("main", "s", "c1", earlier=EarlierCall(handles[0], wait=False))
        result = await installation.tools().call("mcp_s_work", {}, look)
    assert result.details[PENDING]


async def test_a_task_outlives_the_crash_of_its_server(tmp_path: Path) -> None:
    """What is asked of the successor is how the task is: that repeats nothing."""
    progress: list[str] = []
    async with opened(tmp_path, "2026-07-28") as installation:
        context = CallContext("main", "s", "c1", progress=progress.append)

        results: list[ToolResult] = []

        async def call() -> None:
            results.append(await installation.tools().call("mcp_s_work", {}, context))

        async with anyio.create_task_group() as group:
            group.start_soon(call)
            await until(lambda: bool(progress))
            installation.manager.restart("s")
            (tmp_path / "done").touch()
    assert "t1 found gold" in text_of(results[0].blocks)
    assert len(lines(tmp_path, "calls")) == 1


@pytest.mark.parametrize("form", FORMS)
async def test_after_kill_9_the_result_is_fetched_and_the_call_is_not_repeated(
    tmp_path: Path, form: str
) -> None:
    installation = Installation(tmp_path / "state")
    installation.state.mkdir(mode=0o700)
    agent = [str(Path(sys.executable).parent / "openclaw"), "agent", "--session-key", "k", "-m"]
    async with scripted_model(rules=RULES) as model:
        installation.configure(model.url, {"s": task_server_entry(tmp_path, form)})
        async with await anyio.open_process(
            [*agent, "Dig."], env=installation.environ(), stdout=None, stderr=None
        ) as first:
            try:
                await until(lambda: has_handle(installation), 300)
            finally:
                first.kill()
        (tmp_path / "done").touch()
        await anyio.run_process([*agent, "Go on."], env=installation.environ())
    assert "t1 found gold" in json.dumps(model.requests[-1].body)
    assert len(lines(tmp_path, "calls")) == 1
    assert lines(tmp_path, "cancelled") == []


def has_handle(installation: Installation) -> bool:
    """Whether the session's record says how the result can be fetched."""
    if not (installation.state / "sessions.db").exists():
        return False
    with (
        closing(sqlite3.connect(installation.state / "sessions.db")) as db,
        suppress(sqlite3.Error),
    ):
        return bool(db.execute("SELECT 1 FROM entries WHERE kind = 'notice'").fetchall())
    return False
