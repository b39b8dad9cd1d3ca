"""Tools of other distributions, found by their entry point."""

import importlib
import json
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from openclaw.agent.tools import base
from openclaw.agent.tools.base import NativeTools
from openclaw.agent.tools.native_tools import native_tools
from openclaw.config.load import load_config
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext
from openclaw.runtime.runtime import open_runtime
from openclaw.secrets.redactor import Redactor

_PLUGIN = """
from openclaw.core.content import Text
from openclaw.core.tools import ToolResult, ToolSpec


class Tool:
    def __init__(self, name):
        self.spec = ToolSpec(name, "greets", {"type": "object"}, name)

    async def call(self, arguments, context):
        return ToolResult(blocks=(Text(f"hello from {self.spec.name}"),))


def tools(context):
    assert context.workspace.is_absolute()
    return [Tool(name) for name in ("greet", "read", "mcp_x_y", "bad name", "Greet", "exec")]


def broken(context):
    raise RuntimeError("no licence")


def strange(context):
    return [object(), Tool("wave")]
"""


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Generator[None]:
    """A distribution with four plugins, as an installer leaves it."""
    site = tmp_path / "site"
    information = site / "tiny_plugin-1.0.dist-info"
    information.mkdir(parents=True)
    (site / "tiny_plugin.py").write_text(_PLUGIN)
    (information / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: tiny-plugin\nVersion: 1.0\n"
    )
    (information / "entry_points.txt").write_text(
        "[openclaw.tools]\n"
        "a-missing = no_such_module:tools\n"
        "b-broken = tiny_plugin:broken\n"
        "c-tools = tiny_plugin:tools\n"
        "d-strange = tiny_plugin:strange\n"
    )
    monkeypatch.setattr(sys, "path", [str(site), *sys.path])
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "tiny_plugin", raising=False)
    base.plugins.cache_clear()
    yield
    base.plugins.cache_clear()


@pytest.fixture
def with_plugins(installed: None, workspace: Path) -> NativeTools:
    return native_tools("main", workspace)


async def test_a_plugins_tool_is_offered_and_called(with_plugins: NativeTools) -> None:
    result = await with_plugins.call("greet", {}, CallContext("main", "s", "c"))
    assert text_of(result.blocks) == "hello from greet"


def test_broken_plugins_and_odd_tools_cost_a_warning_each(
    with_plugins: NativeTools, caplog: pytest.LogCaptureFixture
) -> None:
    names = [spec.name for spec in with_plugins.specs()]
    assert names == [
        "read",
        "attach",
        "write",
        "edit",
        "move",
        "delete",
        "list",
        "search",
        "web_fetch",
        "update_plan",
        "greet",
        "wave",
    ]
    warned = "\n".join(record.getMessage() for record in caplog.get_records("setup"))
    for words in (
        "'a-missing' (no_such_module:tools) could not be loaded: ModuleNotFoundError",
        "'b-broken' (tiny_plugin:broken) could not be loaded: RuntimeError: no licence",
        "'c-tools' is left out: there is already a tool 'read'",
        "'c-tools' is left out: names that start with mcp_",
        "'c-tools' is left out: its name 'bad name'",
        "'c-tools' is left out: there is already a tool 'Greet'",
        "'c-tools' is left out: there is already a tool 'exec'",
        "'d-strange' is left out: it has no spec",
    ):
        assert words in warned


@pytest.mark.parametrize("wanted", [True, False])
async def test_plugins_are_loaded_unless_the_configuration_says_no(
    installed: None, tmp_path: Path, wanted: bool
) -> None:
    config = tmp_path / "openclaw.json"
    config.write_text(json.dumps({"tools": {"plugins": wanted}}))
    environ = {"OPENCLAW_STATE_DIR": str(tmp_path / "state"), "HOME": str(tmp_path)}
    async with open_runtime(load_config(config, environ), environ, Redactor()) as runtime:
        names = {spec.name for spec in await runtime.tools("main")}
    assert "read" in names
    assert ("greet" in names) is wanted
