"""MCP servers of other makers in a sandbox, as people would confine them."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.e2e.conftest import NodePackages
from tests.support.mcp_server_kit import open_gateway_runtime

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.content import text_of
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.mcp_client.sandbox.support import SandboxSupport, detect_support

pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(sys.platform != "linux", reason="Linux has sandboxes"),
]

HERE = detect_support(os.environ["PATH"])
MEANS = [
    pytest.param(HERE, id="bubblewrap"),
    pytest.param(SandboxSupport(None, "left out", HERE.landlock), id="landlock"),
]
FILESYSTEM = "@modelcontextprotocol/server-filesystem/dist/index.js"


def installation(root: Path, means: SandboxSupport, **entry: Any) -> Any:
    if means.best is None:
        pytest.skip(means.missing)
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ["HOME"]}
    server = McpServerConfig.model_validate({"timeout": 60_000, **entry})
    confine = Sandbox(environ, root / "state", means=means).confine
    return open_gateway_runtime(root / "state", {"s": server}, environ=environ, confine=confine)


@pytest.mark.parametrize("means", MEANS)
async def test_a_python_server_needs_nothing_to_be_named(
    tmp_path: Path, programs: Path, means: SandboxSupport
) -> None:
    entry = {
        "command": str(programs / "mcp-server-time"),
        "args": ["--local-timezone", "UTC"],
        "sandbox": {"mode": "strict"},
    }
    async with installation(tmp_path, means, **entry) as running:
        assert '"timezone"' in await running.said("mcp_s_get_current_time", timezone="UTC")


@pytest.mark.parametrize("means", MEANS)
async def test_a_file_server_that_may_see_everything_sees_what_is_named(
    tmp_path: Path, home: Path, node_packages: NodePackages, means: SandboxSupport
) -> None:
    notes = tmp_path / "notes"
    notes.mkdir()
    (notes / "a.txt").write_text("a note")
    (home / "private.txt").write_text("a diary")
    node, script = node_packages.script(FILESYSTEM)
    entry = {
        "command": node,
        "args": [script, str(tmp_path), str(notes)],
        "sandbox": {"mode": "strict", "read": [str(node_packages.modules)], "write": [str(notes)]},
    }
    async with installation(tmp_path, means, **entry) as running:
        read, write = "mcp_s_read_text_file", "mcp_s_write_file"
        assert "a note" in await running.said(read, path=str(notes / "a.txt"))
        assert "a diary" not in await running.said(read, path=str(home / "private.txt"))
        await running.call(write, path=str(notes / "b.txt"), content="b")
        refused = await running.call(write, path=str(tmp_path / "c.txt"), content="c")
        assert refused.is_error or not (tmp_path / "c.txt").exists(), text_of(refused.blocks)
    assert (notes / "b.txt").read_text() == "b"
    assert not (tmp_path / "c.txt").exists()
