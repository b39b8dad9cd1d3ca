"""`openclaw mcp pins`, `login` and `logout`, run as a person runs them."""

import io
import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.fake_oauth import FakeAuthority, browse, protected
from tests.support.fake_server import command
from tests.support.mcp_server_kit import fake_tool

from openclaw.cli.commands import mcp
from openclaw.cli.environment import Environment
from openclaw.cli.parser import CommandParser, parse
from openclaw.cli.run_command import run_command
from openclaw.core.errors import InvalidRequest, NotFound

ECHO = {**fake_tool("echo"), "description": "Says it again."}


class Desk:
    """A state directory with one server, and the command line on it."""

    def __init__(self, root: Path) -> None:
        self.state = root / "state"
        self.state.mkdir(mode=0o700)
        self.file = root / "server.json"
        program, arguments = command({})
        self.configure(a={"command": program, "args": [*arguments[:-1], f"@{self.file}"]})
        self.out = ""
        self.err = ""

    def configure(self, **servers: Any) -> None:
        text = json.dumps({"mcp": {"servers": servers}})
        (self.state / "openclaw.json").write_text(text)

    def declares(self, *tools: Any) -> None:
        self.file.write_text(json.dumps({"tools": list(tools)}))

    def run(self, *words: str) -> int:
        out, err = io.StringIO(), io.StringIO()
        environ = {
            "PATH": os.environ["PATH"],
            "HOME": os.environ["HOME"],
            "OPENCLAW_STATE_DIR": str(self.state),
        }
        env = Environment(environ=environ, stdout=out, stderr=err, stdin=io.StringIO())
        parser = CommandParser(prog="openclaw mcp")
        mcp.register(parser)
        try:
            return run_command("mcp", parse(parser, list(words)), env)
        finally:
            self.out, self.err = out.getvalue(), err.getvalue()


@pytest.fixture
def desk(tmp_path: Path) -> Desk:
    return Desk(tmp_path)


def test_a_change_is_shown_as_a_diff_and_accepted(desk: Desk) -> None:
    assert desk.run("pins") == 0
    assert "Nothing is pinned yet" in desk.out
    desk.declares(ECHO)
    desk.run("probe")
    desk.run("pins")
    assert "1 tool, as accepted" in desk.out
    desk.run("pins", "show", "a")
    assert "matches what you accepted: echo" in desk.out
    desk.declares({**ECHO, "description": "Says it again, and more."}, fake_tool("new"))
    desk.run("probe")
    assert "openclaw mcp pins show a" in desk.out
    desk.run("pins")
    assert "not accepted: echo, new" in desk.out
    desk.run("pins", "show", "a")
    assert '-  "description": "Says it again."' in desk.out
    assert '+  "description": "Says it again, and more."' in desk.out
    assert "new (new)" in desk.out
    desk.run("pins", "accept", "a", "new")
    assert "Accepted from 'a': new" in desk.out
    desk.run("pins", "list", "--json")
    assert json.loads(desk.out)["servers"][0]["changed"] == ["echo"]
    desk.run("pins", "accept", "a")
    desk.run("pins", "accept", "a")
    assert "nothing to accept" in desk.out


def test_what_was_accepted_is_shown_as_json_and_cannot_be_accepted_again(desk: Desk) -> None:
    desk.declares(ECHO)
    desk.run("probe")
    with pytest.raises(NotFound):
        desk.run("pins", "accept", "a", "echo")
    desk.run("pins", "show", "a", "--json")
    assert list(json.loads(desk.out)["pins"][0]["accepted"]) == ["echo"]


def test_a_server_that_lists_more_to_a_client_that_can_ask_is_seen_the_same_everywhere(
    desk: Desk,
) -> None:
    desk.declares(ECHO, {**fake_tool("form"), "needs": "elicitation"})
    desk.run("probe")
    desk.run("pins", "list", "--json")
    assert json.loads(desk.out)["servers"][0]["tools"] == 2
    desk.run("tools", "--json")
    assert len(json.loads(desk.out)["tools"]) == 2


def test_a_tool_that_is_gone_is_told_in_the_list_and_when_shown(desk: Desk) -> None:
    desk.declares(ECHO, fake_tool("other"))
    desk.run("probe")
    desk.declares(ECHO)
    desk.run("probe")
    desk.run("pins")
    assert desk.out.rstrip().endswith("2 tools, removed: other")
    desk.run("pins", "show", "a")
    assert "other was removed" in desk.out


def test_pins_of_a_server_that_is_no_longer_configured_are_listed(desk: Desk) -> None:
    desk.declares(ECHO)
    desk.run("probe")
    desk.configure()
    desk.run("pins")
    assert desk.out.startswith(f"a  {Path(sys.executable).name}")


def test_a_server_has_to_be_named_and_known(desk: Desk) -> None:
    with pytest.raises(InvalidRequest, match="name a server"):
        desk.run("pins", "accept")
    with pytest.raises(NotFound):
        desk.run("pins", "show", "b")


async def test_a_person_logs_in_and_out(desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    import anyio.to_thread

    monkeypatch.setattr("openclaw.cli.commands.mcp_live.open_browser", browse)
    with FakeAuthority().running() as authority:
        async with protected({"tools": [ECHO]}, authority) as server:
            desk.configure(docs={"url": server.url, "auth": "oauth"})
            run = anyio.to_thread.run_sync
            assert await run(desk.run, "probe") == 1
            assert "needs login" in desk.out
            assert await run(desk.run, "login", "docs") == 0
            assert "Logged in to 'docs'" in desk.out
            assert f"{authority.url}/authorize" in desk.err
            assert await run(desk.run, "probe") == 0
            assert await run(desk.run, "logout", "docs") == 0
            assert "Logged out of 'docs'" in desk.out
            assert await run(desk.run, "logout", "docs", "--json") == 0
            assert json.loads(desk.out) == {"loggedOut": "docs", "was": False, "revoked": False}


def test_only_servers_with_a_login_can_be_logged_in_to(desk: Desk) -> None:
    with pytest.raises(InvalidRequest, match="not configured for a login"):
        desk.run("login", "a")
    with pytest.raises(NotFound):
        desk.run("logout", "b")
