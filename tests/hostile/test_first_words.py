"""A server that gives its secret away with the first thing that it says, wherever the secret is kept."""

import io
import json
import sys
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.fake_http_server import FakeHttpServer, Request
from tests.support.mcp_server_kit import fake_tool

from openclaw.cli.logging_setup import configure
from openclaw.config.load import parse_config
from openclaw.config.merge import effective_agents
from openclaw.mcp_client.lifecycle.manager import McpManager
from openclaw.runtime.host import open_servers
from openclaw.secrets.redactor import Redactor

SECRET = "tangerine-7431-harbour-ZX"  # not a real one
ENCODED = "dGFuZ2VyaW5lLTc0MzEtaGFyYm91ci1aWA=="

# Speaks before it is spoken to, and says its secret in every answer.
TALKER = """
import json, os, sys
secret = os.environ.get("TOKEN") or sys.argv[2]
print("first words:", secret, file=sys.stderr, flush=True)

def say(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

note = {"level": "error", "logger": secret, "data": {"key": secret}}
say(method="notifications/message", params=note)
print("no message at all:", secret, flush=True)
say(method=secret, params={"x": secret})
say(id=secret, result={})
say(id=1, method=secret)
if sys.argv[1] == "dies":
    sys.exit(3)
for line in sys.stdin:
    asked = json.loads(line)
    if "id" not in asked or "method" not in asked:
        continue
    method, version = asked["method"], asked.get("params", {}).get("protocolVersion")
    if sys.argv[1] == "refuses" or method not in ("initialize", "tools/list"):
        say(id=asked["id"], error={"code": -32601, "message": "not with " + secret})
    elif method == "initialize":
        info = {"name": secret, "version": secret}
        say(id=asked["id"], result={"protocolVersion": version, "serverInfo": info,
            "capabilities": {"tools": {}, "logging": {}}, "instructions": "Use " + secret})
    else:
        tool = {"name": "go", "description": "with " + secret, "inputSchema": {"type": "object"}}
        other = {"name": secret, "inputSchema": {"type": "object"}}
        say(id=asked["id"], result={"tools": [tool, other]})
    print("answered", method, "with", secret, file=sys.stderr, flush=True)
"""


def kept_in(place: str, directory: Path) -> tuple[str, dict[str, Any]]:
    """A reference, and the configuration of where it leads."""
    if place == "file":
        (directory / "token").write_text(f"{SECRET}\n")
        return f"secret://file/{directory}/token", {}
    if place == "field":
        (directory / "tokens.json").write_text(json.dumps({"a": {"token": SECRET}}))
        return f"secret://file/{directory}/tokens.json#a.token", {}
    script = directory / "print-token.py"
    script.write_text(f"import time; time.sleep(0.3); print({SECRET!r})")
    command = {"command": sys.executable, "args": [str(script)]}
    return "secret://exec/slow", {"secrets": {"exec": {"slow": command}}}


@dataclass(frozen=True)
class Talk:
    """A running manager, and our log as it is written."""

    manager: McpManager
    log: io.StringIO
    redactor: Redactor

    async def until(self, happened: Callable[[], object]) -> None:
        with anyio.fail_after(60):
            while not happened():  # noqa: ASYNC110 (the child's own pace)
                await anyio.sleep(0.02)

    def told(self) -> str:
        """All that a model, a person or the log is given."""
        specs = [repr(spec) for spec in self.manager.tools("main").specs()]
        shown = [specs, self.manager.instructions("main"), self.manager.status()]
        return repr(shown) + self.log.getvalue()


@asynccontextmanager
async def talking(
    tmp_path: Path, entry: dict[str, Any], more: dict[str, Any]
) -> AsyncGenerator[Talk]:
    environ = {"HOME": str(tmp_path), "OPENCLAW_STATE_DIR": str(tmp_path / "state"), "PATH": "/bin"}
    text = json.dumps({"mcp": {"servers": {"talker": entry | {"maxRestarts": 0}}}, **more})
    loaded = parse_config(text, environ, source=tmp_path / "openclaw.json")
    redactor, log = Redactor(), io.StringIO()
    logs = configure("debug", False, redactor, log)
    try:
        async with open_servers(
            loaded, environ, redactor, effective_agents(loaded.config)
        ) as opened:
            yield Talk(opened.manager, log, redactor)
    finally:
        logs.close()


def talker(tmp_path: Path, *args: str, **env: str) -> dict[str, Any]:
    script = tmp_path / "talker.py"
    script.write_text(TALKER)
    return {"command": sys.executable, "args": [str(script), *args], "env": env}


def recorded_under(directory: Path) -> bytes:
    return b"".join(path.read_bytes() for path in directory.rglob("*") if path.is_file())


@pytest.mark.parametrize("place", ["file", "field", "exec"])
@pytest.mark.parametrize("given", ["env", "args"])
async def test_the_first_words_of_a_server_are_without_its_secret(
    tmp_path: Path, place: str, given: str
) -> None:
    reference, more = kept_in(place, tmp_path)
    entry = (
        talker(tmp_path, "serves", TOKEN=reference)
        if given == "env"
        else talker(tmp_path, "serves", reference)
    )
    async with talking(tmp_path, entry, more) as talk:
        await talk.until(lambda: "answered tools/list" in talk.log.getvalue())
        await talk.until(lambda: talk.manager.tools("main").specs())
        told = talk.told()
    assert "first words: [REDACTED]" in told
    assert "no message at all: [REDACTED]" in told
    assert "with [REDACTED]" in told
    assert SECRET not in told
    assert ENCODED not in told
    assert SECRET.encode() not in recorded_under(tmp_path / "state")


@pytest.mark.parametrize("place", ["file", "exec"])
@pytest.mark.parametrize("how", ["dies", "refuses"])
async def test_a_server_that_fails_at_once_takes_its_secret_with_it(
    tmp_path: Path, place: str, how: str
) -> None:
    reference, more = kept_in(place, tmp_path)
    async with talking(tmp_path, talker(tmp_path, how, TOKEN=reference), more) as talk:
        await talk.until(lambda: talk.manager.status()[0].snapshot.last_error)
        told = talk.told()
    assert "first words: [REDACTED]" in told
    assert SECRET not in told
    assert SECRET.encode() not in recorded_under(tmp_path / "state")


async def test_why_a_server_failed_is_shown_without_what_became_a_secret_since(
    tmp_path: Path,
) -> None:
    async with talking(tmp_path, talker(tmp_path, "refuses", "the-harbour-at-dawn"), {}) as talk:
        await talk.until(lambda: talk.manager.status()[0].snapshot.last_error)
        assert "not with the-harbour-at-dawn" in repr(talk.manager.status())
        talk.redactor.register("the-harbour-at-dawn")
        shown = repr(talk.manager.status())
    assert "not with [REDACTED]" in shown
    assert "the-harbour-at-dawn" not in shown.replace(repr(str(tmp_path)), "")


class Echo(FakeHttpServer):
    """Tells whoever has the wrong key which one it is."""

    def refusal(self, request: Request) -> tuple[int, dict[str, str]] | None:
        refused = super().refusal(request)
        said = f'Bearer error="invalid_token", error_description="not {SECRET}"'
        return refused and (refused[0], {"WWW_Authenticate": said})


@pytest.mark.parametrize("place", ["file", "exec"])
@pytest.mark.parametrize("right", [True, False], ids=["serves", "refuses"])
async def test_the_first_words_of_a_remote_server_are_without_its_secret(
    tmp_path: Path, place: str, right: bool
) -> None:
    spec = {
        "instructions": f"Use {SECRET}.",
        "tools": [{**fake_tool("go"), "description": f"with {ENCODED}"}],
    }
    reference, more = kept_in(place, tmp_path)
    required = {"X-Team": f"{'blue' if right else 'red'} {SECRET}"}
    async with Echo(spec, headers=required).running() as server:
        url = f"{server.url}?team=<{reference}>"
        entry = {"url": url, "headers": {"X-Team": f"blue {reference}"}}
        async with talking(tmp_path, entry, more) as talk:
            status = talk.manager.status
            await talk.until(
                lambda: status()[0].snapshot.last_error or talk.manager.tools("main").specs()
            )
            told = talk.told()
    assert all(SECRET in request.path for request in server.requests)  # it was really given
    assert ("with [REDACTED]" in told) is right
    assert SECRET not in told
    assert ENCODED not in told
    assert SECRET.encode() not in recorded_under(tmp_path / "state")
