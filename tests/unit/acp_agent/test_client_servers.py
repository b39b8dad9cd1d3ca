"""The MCP servers that a client hands over."""

import logging
from pathlib import Path

import pytest
from acp.schema import (
    AcpMcpServer,
    EnvVariable,
    HttpHeader,
    HttpMcpServer,
    McpServerStdio,
    SseMcpServer,
)

from openclaw.acp_agent.session import ClientServer, session_servers
from openclaw.secrets.redactor import Redactor

CWD = Path("/project")


def stdio(name: str = "s", **more: object) -> McpServerStdio:
    fields: dict[str, object] = {"name": name, "command": "/bin/s", "args": [], "env": [], **more}
    return McpServerStdio.model_validate(fields)


def test_a_stdio_server_runs_in_the_sessions_directory_with_its_own_variables() -> None:
    given = stdio(args=["-x"], env=[EnvVariable(name="LANG", value="de")])
    config = session_servers([given], CWD, Redactor())["s"]
    assert (config.kind, config.command, config.args) == ("stdio", "/bin/s", ("-x",))
    assert (config.cwd, config.env) == ("/project", {"LANG": "de"})
    assert config.inherit_env is False


@pytest.mark.parametrize("kind", ["http", "sse"])
def test_a_remote_server_is_reached_as_the_client_says(kind: str) -> None:
    headers = [HttpHeader(name="X-Team", value="blue")]
    url = "http://127.0.0.1/mcp"
    given: ClientServer = (
        HttpMcpServer(type="http", name="r", url=url, headers=headers)
        if kind == "http"
        else SseMcpServer(type="sse", name="r", url=url, headers=headers)
    )
    config = session_servers([given], CWD, Redactor())["r"]
    assert (config.kind, config.url, config.headers) == (kind, url, {"X-Team": "blue"})
    assert not config.may_fall_back_to_sse


class Learning(Redactor):
    def __init__(self) -> None:
        super().__init__()
        self.learnt: list[str] = []

    def register(self, value: str) -> None:
        self.learnt.append(value)


def test_credentials_are_known_so_that_no_log_shows_them() -> None:
    remote = HttpMcpServer(
        type="http",
        name="r",
        url="http://127.0.0.1",
        headers=[
            HttpHeader(name="Authorization", value="Bearer abcdef123456"),
            HttpHeader(name="X-Team", value="blue"),
        ],
    )
    local = stdio(env=[EnvVariable(name="API_KEY", value="key-98765432")])
    odd = stdio("odd", args=["-y", "it", "q7Zr2LkX9vTb4NwPd8Yh1MsJ"])
    redactor = Learning()
    session_servers([remote, local, odd], CWD, redactor)
    assert redactor.learnt == [
        "Bearer abcdef123456",
        "abcdef123456",
        "key-98765432",
        "q7Zr2LkX9vTb4NwPd8Yh1MsJ",
    ]


@pytest.mark.parametrize(
    "server",
    [
        stdio("bad", env=[EnvVariable(name="K", value="x secret://env/HOME")]),
        stdio("bad", args=["secret://env/HOME"]),
        stdio("bad", command=""),
        AcpMcpServer.model_construct(type="acp", name="bad", id="1"),
        HttpMcpServer(
            type="http",
            name="bad",
            url="http://127.0.0.1",
            headers=[HttpHeader(name="K", value="secret://env/HOME")],
        ),
    ],
)
def test_a_server_that_cannot_be_taken_is_left_out_and_named(
    server: ClientServer, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        taken = session_servers([server, stdio("good")], CWD, Redactor())
    assert list(taken) == ["good"]
    assert "'bad' is left out" in caplog.text


def test_servers_of_one_name_are_told_apart_and_a_nameless_one_gets_one() -> None:
    taken = session_servers([stdio("a"), stdio("a"), stdio("a"), stdio(" ")], CWD, Redactor())
    assert list(taken) == ["a", "a-2", "a-3", "server"]
