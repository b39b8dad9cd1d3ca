"""MCP servers of other makers, as people run them."""

import json
import os
import socket
import subprocess
from collections.abc import AsyncGenerator, Generator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import anyio
import anyio.lowlevel
import pytest
from tests.support.fake_http import QuietHandler, serving
from tests.support.mcp_server_kit import McpInstallation, open_gateway_runtime

from openclaw.agent.toolpath.search import OWN_SHARE, ToolListLimits
from openclaw.agent.tools.native_tools import native_tools
from openclaw.agent.transcript import UserItem
from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.content import Media, ResourceLink, Text, text_of
from openclaw.core.tools import CallContext
from openclaw.mcp_client.bridge.prompts import parse_prompt_call
from openclaw.mcp_client.lifecycle.manager import AgentServers

pytestmark = pytest.mark.subprocess

ENVIRON = {"PATH": os.environ["PATH"]}
EVERYTHING = "@modelcontextprotocol/server-everything/dist/index.js"
FILESYSTEM = "@modelcontextprotocol/server-filesystem/dist/index.js"
MEMORY = "@modelcontextprotocol/server-memory/dist/index.js"
THINKING = "@modelcontextprotocol/server-sequential-thinking/dist/index.js"


def config(command: str, *args: str, **settings: Any) -> McpServerConfig:
    # A machine that runs all tests at once starts a Node server in 10 s at times.
    return McpServerConfig.model_validate(
        {"command": command, "args": list(args), "timeout": 60_000, **settings}
    )


@asynccontextmanager
async def installation_of(root: Path, server: McpServerConfig) -> AsyncGenerator[McpInstallation]:
    """An installation with that server, `s`, whose root is `root`."""
    agent = AgentServers({"s": server}, roots=(root,))
    agents = {"main": agent}
    async with open_gateway_runtime(
        root / "state", environ=ENVIRON, agents=agents, settle=False
    ) as installation:
        await installation.manager.wait_for_tools("main", timeout=60)
        yield installation


def status(installation: McpInstallation) -> Any:
    return installation.manager.status()[0].snapshot


@pytest.mark.requirement("NFR-4.3")
async def test_the_time_server_tells_and_converts_the_time(tmp_path: Path, programs: Path) -> None:
    server = config(str(programs / "mcp-server-time"), "--local-timezone", "UTC")
    async with installation_of(tmp_path, server) as installation:
        assert installation.names() == ["mcp_s_convert_time", "mcp_s_get_current_time"]
        result = await installation.call(
            "mcp_s_convert_time",
            source_timezone="Europe/Berlin",
            time="12:00",
            target_timezone="Asia/Tokyo",
        )
        block: Any = result.outputs[0]
        assert json.loads(block.text)["time_difference"] in ("+7.0h", "+8.0h")
        wrong = await installation.call("mcp_s_get_current_time", timezone="Mars/Olympus")
        assert wrong.is_error
        assert "MCP tool error (s/get_current_time)" in text_of(wrong.blocks)


@pytest.mark.parametrize("window", [32_768, 128_000, 200_000])
async def test_the_two_tools_of_the_time_server_are_shown_beside_two_large_servers(
    tmp_path: Path, programs: Path, node_packages: Any, window: int
) -> None:
    servers = {
        "everything": config(*node_packages.script(EVERYTHING)),
        "filesystem": config(*node_packages.script(FILESYSTEM), str(tmp_path)),
        "time": config(str(programs / "mcp-server-time"), "--local-timezone", "UTC"),
    }
    agents = {"main": AgentServers(servers, roots=(tmp_path,))}
    async with open_gateway_runtime(
        tmp_path / "state", environ=ENVIRON, agents=agents, settle=False
    ) as installation:
        await installation.manager.wait_for_tools("main", timeout=60)
        native = native_tools("main", tmp_path)
        box = installation.tools(own=native)
        box.index_items([UserItem("Read every file of this directory and list what is in it.")])
        shown = await box.shown(window)
    names = {spec.name for spec in shown}
    assert {"mcp_time_convert_time", "mcp_time_get_current_time"} <= names
    assert {spec.name for spec in native.specs()} <= names
    assert "mcp_filesystem_list_directory" in names
    ours = box.sizes.total([spec for spec in shown if spec.origin.server is None])
    assert box.sizes.total(shown) <= ToolListLimits().tokens(window) + min(ours, window * OWN_SHARE)


async def test_the_git_server_reads_and_writes_a_repository(tmp_path: Path, programs: Path) -> None:
    repository = tmp_path / "repository"
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.org"]
    subprocess.run(["git", "init", "-q", "-b", "main", str(repository)], check=True)
    (repository / "a.txt").write_text("one\n")
    subprocess.run(["git", "-C", str(repository), "add", "."], check=True)
    subprocess.run(["git", "-C", str(repository), *identity, "commit", "-qm", "First"], check=True)
    (repository / "a.txt").write_text("two\n")
    async with installation_of(tmp_path, config(str(programs / "mcp-server-git"))) as installation:
        path = str(repository)
        assert "First" in await installation.said("mcp_s_git_log", repo_path=path)
        assert "+two" in await installation.said("mcp_s_git_diff_unstaged", repo_path=path)
        await installation.call("mcp_s_git_create_branch", repo_path=path, branch_name="topic")
    branches = subprocess.run(
        ["git", "-C", str(repository), "branch"], check=True, capture_output=True, text=True
    )
    assert "topic" in branches.stdout


class _Page(QuietHandler):
    def do_GET(self) -> None:
        body = b"<html><body><h1>Harbour</h1><p>Tide at <b>nine</b>.</p></body></html>"
        self.reply(body, kind="text/html")


@pytest.fixture
def page() -> Generator[str]:
    with serving(_Page) as url:
        yield f"{url}/"


async def test_the_fetch_server_reads_a_page(tmp_path: Path, programs: Path, page: str) -> None:
    server = config(
        str(programs / "mcp-server-fetch"), "--ignore-robots-txt", "--allow-private-ips"
    )
    async with installation_of(tmp_path, server) as installation:
        said = await installation.said("mcp_s_fetch", url=page)
        assert "Harbour" in said
        assert "<<<EXTERNAL_UNTRUSTED_CONTENT" in said
        assert [prompt.command for prompt in installation.manager.prompts("main")] == ["/s:fetch"]


@pytest.mark.requirement("NFR-4.3")
async def test_the_filesystem_server_is_kept_to_the_agents_root(
    tmp_path: Path, node_packages: Any
) -> None:
    (tmp_path / "inside.txt").write_text("treasure")
    server = config(*node_packages.script(FILESYSTEM), str(tmp_path))
    async with installation_of(tmp_path, server) as installation:
        said = await installation.said("mcp_s_read_text_file", path=str(tmp_path / "inside.txt"))
        assert said.count("treasure") == 1
        written = str(tmp_path / "new.txt")
        await installation.call("mcp_s_write_file", path=written, content="by tool")
        assert (tmp_path / "new.txt").read_text() == "by tool"
        assert (await installation.call("mcp_s_read_text_file", path="/etc/hostname")).is_error
        spec = next(
            s
            for s in installation.manager.tools("main").specs()
            if s.name == "mcp_s_read_text_file"
        )
        assert spec.read_only is True


async def allowed(installation: McpInstallation, directory: Path) -> None:
    """Wait until the filesystem server goes by its roots: it asks for them once it has started."""
    with anyio.fail_after(60):
        while str(directory) not in await installation.said("mcp_s_list_allowed_directories"):
            pass


async def test_the_filesystem_server_reads_the_directory_in_its_arguments(
    tmp_path: Path, node_packages: Any
) -> None:
    work, elsewhere = tmp_path / "work", tmp_path / "elsewhere"
    for directory in (work, elsewhere):
        directory.mkdir()
        (directory / "note.txt").write_text(f"in {directory.name}")
    server = config(*node_packages.script(FILESYSTEM), str(elsewhere))
    async with installation_of(work, server) as installation:
        await allowed(installation, work)
        for directory in (work, elsewhere):
            said = await installation.said("mcp_s_read_text_file", path=str(directory / "note.txt"))
            assert f"in {directory.name}" in said
        assert (await installation.call("mcp_s_read_text_file", path="/etc/hostname")).is_error


async def test_the_filesystem_server_is_kept_to_the_roots_of_its_configuration(
    tmp_path: Path, node_packages: Any
) -> None:
    work, other = tmp_path / "work", tmp_path / "other"
    for directory in (work, other):
        directory.mkdir()
        (directory / "note.txt").write_text("a note")
    server = config(*node_packages.script(FILESYSTEM), str(work), roots=[str(other)])
    async with installation_of(work, server) as installation:
        await allowed(installation, other)
        assert "a note" in await installation.said(
            "mcp_s_read_text_file", path=str(other / "note.txt")
        )
        refused = await installation.call("mcp_s_read_text_file", path=str(work / "note.txt"))
        assert refused.is_error


async def test_the_memory_server_remembers_across_starts(
    tmp_path: Path, node_packages: Any
) -> None:
    kept = {"MEMORY_FILE_PATH": str(tmp_path / "memory.jsonl")}
    server = config(*node_packages.script(MEMORY), env=kept)
    tide = {"name": "tide", "entityType": "time", "observations": ["high at nine"]}
    async with installation_of(tmp_path, server) as installation:
        assert not (await installation.call("mcp_s_create_entities", entities=[tide])).is_error
    async with installation_of(tmp_path, server) as installation:
        assert "high at nine" in await installation.said("mcp_s_search_nodes", query="tide")


async def test_the_sequential_thinking_server_counts_thoughts(
    tmp_path: Path, node_packages: Any
) -> None:
    async with installation_of(tmp_path, config(*node_packages.script(THINKING))) as installation:
        for number in (1, 2):
            result = await installation.call(
                "mcp_s_sequentialthinking",
                thought="Look at the tide table.",
                thoughtNumber=number,
                totalThoughts=2,
                nextThoughtNeeded=number < 2,
            )
        block: Any = result.outputs[0]
        assert json.loads(block.text)["thoughtHistoryLength"] == 2


async def test_everything_over_stdio(tmp_path: Path, node_packages: Any) -> None:
    """One server start for all that it offers, since each costs seconds."""
    async with installation_of(tmp_path, config(*node_packages.script(EVERYTHING))) as installation:
        assert status(installation).protocol == "2025-11-25"
        assert "Echo: hello" in await installation.said("mcp_s_echo", message="hello")
        assert "42" in await installation.said("mcp_s_get-sum", a=40, b=2)

        image = await installation.call("mcp_s_get-tiny-image")
        assert any(isinstance(b, Media) and b.mime_type == "image/png" for b in image.blocks)

        links = await installation.call("mcp_s_get-resource-links", count=2)
        assert sum(isinstance(block, ResourceLink) for block in links.outputs) == 2

        annotated = await installation.call("mcp_s_get-annotated-message", messageType="success")
        assert any(isinstance(b, Text) and b.addressed for b in annotated.outputs)

        structured = await installation.call("mcp_s_get-structured-content", location="Chicago")
        assert "temperature" in text_of(structured.blocks)

        assert tmp_path.name in await installation.said("mcp_s_get-roots-list")

        heard = await installation.said("mcp_s_trigger-long-running-operation", duration=1, steps=2)
        assert "completed" in heard

        context = installation.manager.resource_context("main")
        assert "## MCP Resources (external, untrusted)" in context
        assert not (
            await installation.call("mcp_s_read_resource", uri="demo://resource/dynamic/text/1")
        ).is_error

        call = parse_prompt_call("/s:args-prompt city=Lisbon")
        assert call is not None
        (message,) = await installation.manager.get_prompt("main", call)
        assert "Lisbon" in text_of(message.blocks)


async def test_everything_researches_as_a_task_and_asks_on_the_way(
    tmp_path: Path, node_packages: Any
) -> None:
    asked: list[str] = []
    progress: list[str] = []

    async def elicit(server: str, params: Any) -> Any:
        asked.append(params["message"])
        return {"action": "accept", "content": {"interpretation": "technical"}}

    agents = {"main": AgentServers({"s": config(*node_packages.script(EVERYTHING))})}
    async with open_gateway_runtime(
        tmp_path, environ=ENVIRON, agents=agents, settle=False, on_elicitation=elicit
    ) as installation:
        await installation.manager.wait_for_tools("main", timeout=60)
        context = CallContext("main", "s", "c1", progress=progress.append, elicit=elicit)
        arguments = {"topic": "python", "ambiguous": True}
        result = await installation.tools().call(
            "mcp_s_simulate-research-query", arguments, context
        )
    assert "Research Report: python (technical" in text_of(result.blocks)
    assert len(asked) == 1
    assert "multiple interpretations" in asked[0]
    assert any("Gathering sources" in line for line in progress)


@pytest.mark.requirement("FR-3.2")
async def test_everything_survives_being_killed(tmp_path: Path, node_packages: Any) -> None:
    async with installation_of(tmp_path, config(*node_packages.script(EVERYTHING))) as installation:
        before = status(installation).pid
        os.kill(before, 9)
        with anyio.fail_after(60):
            while (await installation.call("mcp_s_echo", message="again")).is_error:
                await anyio.lowlevel.checkpoint()
        assert status(installation).pid != before


def _free_port() -> int:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        return int(taken.getsockname()[1])


@pytest.mark.parametrize(("mode", "path"), [("streamableHttp", "mcp"), ("sse", "sse")])
async def test_everything_over_http(
    tmp_path: Path, node_packages: Any, mode: str, path: str
) -> None:
    port = _free_port()
    environ = {**ENVIRON, "PORT": str(port)}
    command = [*node_packages.script(EVERYTHING), mode]
    async with await anyio.open_process(command, env=environ) as process:
        try:
            await _listening(port)
            url = f"http://127.0.0.1:{port}/{path}"
            transport = "sse" if mode == "sse" else "http"
            server = McpServerConfig.model_validate({"url": url, "transport": transport})
            async with installation_of(tmp_path, server) as installation:
                assert "Echo: far" in await installation.said("mcp_s_echo", message="far")
                assert status(installation).transport == transport
        finally:
            process.kill()


async def _listening(port: int) -> None:
    with anyio.fail_after(60):
        while True:
            try:
                await (await anyio.connect_tcp("127.0.0.1", port)).aclose()
            except OSError:
                await anyio.sleep(0.05)
            else:
                return
