"""What the log says of servers and calls, and what a call costs on the way."""

import logging
import os
import re
import statistics
import time
from pathlib import Path

import pytest
from tests.support.mcp_server_kit import fake_config, fake_tool, open_gateway_runtime, until

from openclaw.config.agent_schema import McpServerConfig

ENVIRON = {"PATH": os.environ["PATH"]}
BRIDGE_LIMIT_MS = 50.0


def _said(caplog: pytest.LogCaptureFixture, level: int) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.levelno == level]


@pytest.mark.requirement("FR-7.1")
async def test_starting_restarting_and_stopping_are_logged_at_info(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "openclaw.mcp_client")
    spec = {"tools": [fake_tool("echo"), fake_tool("die", crash=1)]}
    async with open_gateway_runtime(
        tmp_path, {"s": fake_config(spec)}, environ=ENVIRON
    ) as installation:
        await installation.call("mcp_s_die")
        await until(lambda: _said(caplog, logging.INFO).count("MCP server 's' is ready") == 2)
    told = [line for line in _said(caplog, logging.INFO) if line.startswith("MCP server 's' is")]
    assert [line.rpartition(" ")[2] for line in told] == [
        "connecting",
        "ready",
        "connecting",
        "ready",
        "closed",
    ]
    assert any("MCP server 's' does not work" in line for line in _said(caplog, logging.WARNING))


@pytest.mark.requirement("E-3")
async def test_a_server_that_is_given_up_is_logged_as_an_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    servers = {"s": fake_config({"faults": {"exitAtStart": 3}}, restartOnCrash=False)}
    async with open_gateway_runtime(tmp_path, servers, environ=ENVIRON):
        await until(lambda: any("has failed" in line for line in _said(caplog, logging.ERROR)))
    assert "MCP server 's' has failed" in "\n".join(_said(caplog, logging.ERROR))


async def test_a_failure_is_told_once_with_the_servers_last_words(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "openclaw.mcp_client")
    entry = {"command": "sh", "args": ["-c", "echo no key is set >&2; exit 3"]}
    servers = {"s": McpServerConfig.model_validate(entry)}
    async with open_gateway_runtime(tmp_path, servers, environ=ENVIRON):
        await until(lambda: any("does not work" in line for line in _said(caplog, logging.INFO)))
    warned = _said(caplog, logging.WARNING)
    assert "MCP server 's': restarting in 1000 ms (attempt 1)" in warned
    (told,) = [line for line in warned if "does not work" in line]
    assert "exited with code 3 (its last output: no key is set)" in told
    assert told.endswith("openclaw mcp probe s")


async def test_an_operator_reads_how_many_servers_run_and_when_they_have_ended(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "openclaw.mcp_client")
    broken = {"faults": {"exitAtStart": 3}}
    servers = {
        "works": fake_config(),
        "broken": fake_config(broken, restartOnCrash=False),
        "off": fake_config(enabled=False),
    }
    async with open_gateway_runtime(tmp_path, servers, environ=ENVIRON):
        await until(lambda: "MCP: 1 of 2 servers ready" in _said(caplog, logging.INFO))
    said = _said(caplog, logging.INFO)
    assert "MCP server 'off' is disabled, skipping" in said
    assert said[-1] == "MCP: all servers are shut down"


@pytest.mark.requirement("FR-7.2")
async def test_a_call_is_logged_at_debug_with_its_time(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "openclaw.agent.toolpath")
    async with open_gateway_runtime(
        tmp_path, {"s": fake_config()}, environ=ENVIRON
    ) as installation:
        await installation.call("mcp_s_echo", secret="not in the log")
    calls = [line for line in _said(caplog, logging.DEBUG) if line.startswith("MCP call")]
    assert len(calls) == 1
    assert re.fullmatch(r"MCP call s/echo: ok after \d+\.\d ms", calls[0])
    assert "not in the log" not in caplog.text


@pytest.mark.requirement("FR-7.3")
async def test_a_servers_stderr_is_logged_as_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    spec = {"tools": [fake_tool("echo")], "faults": {"stderrFlood": 1}}
    async with open_gateway_runtime(tmp_path, {"s": fake_config(spec)}, environ=ENVIRON):
        await until(lambda: "stderr line 0" in caplog.text)
    assert "MCP server 's' stderr: stderr line 0" in _said(caplog, logging.WARNING)


@pytest.mark.requirement("NFR-1.2")
async def test_the_bridge_adds_far_less_than_50_ms_to_a_call(tmp_path: Path) -> None:
    async with open_gateway_runtime(
        tmp_path, {"s": fake_config()}, environ=ENVIRON
    ) as installation:
        await installation.call("mcp_s_echo", n=0)
        took: list[float] = []
        for n in range(30):
            started = time.process_time()
            await installation.call("mcp_s_echo", n=n)
            took.append(1000 * (time.process_time() - started))
    assert statistics.median(took) < BRIDGE_LIMIT_MS
