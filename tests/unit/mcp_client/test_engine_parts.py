"""The small parts of the engine, each by itself."""

import logging
from pathlib import Path
from typing import Any, cast

import pytest
from tests.support.connection_bench import knowing

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.clock import SystemClock
from openclaw.mcp.declarations import Listing, Tool
from openclaw.mcp.negotiation import Handshake
from openclaw.mcp.revisions import REVISIONS
from openclaw.mcp_client import bounds
from openclaw.mcp_client.bounds import printable
from openclaw.mcp_client.errors import (
    ConnectionFailed,
    NeedsLogin,
    RemoteError,
    error_text,
    first_cause,
)
from openclaw.mcp_client.session import listing
from openclaw.mcp_client.session.elicitation import decline
from openclaw.mcp_client.session.era_memory import (
    FORGET_LEGACY_AFTER,
    Era,
    EraMemory,
    identity,
)
from openclaw.mcp_client.session.request_handlers import RequestHandlers
from openclaw.mcp_client.session.server_session import ServerSession
from openclaw.mcp_client.transport.child_process import StderrTail
from openclaw.secrets.redactor import Redactor


class StillClock:
    def now_ms(self) -> int:
        return 0

    def monotonic(self) -> float:
        return 0.0


def test_an_era_is_remembered_on_disk_for_its_owner_alone(tmp_path: Path):
    memory = EraMemory(tmp_path / "cache", "key")
    assert memory.recall() is None
    memory.remember(Era.LEGACY)
    memory.remember(Era.LEGACY)
    memory.remember(Era.MODERN)
    assert EraMemory(tmp_path / "cache", "key").recall() is Era.MODERN
    file = tmp_path / "cache" / "mcp-protocols" / "key"
    assert file.stat().st_mode & 0o777 == 0o600
    assert [path.name for path in file.parent.iterdir()] == ["key"]


class LaterClock(StillClock):
    def now_ms(self) -> int:
        return SystemClock().now_ms() + int(FORGET_LEGACY_AFTER * 1000) + 1000


@pytest.mark.parametrize("era", [Era.LEGACY, Era.MODERN])
def test_an_old_server_is_asked_again_after_a_while_since_it_may_have_been_updated(
    tmp_path: Path, era: Era
):
    EraMemory(tmp_path, "key").remember(era)
    later = EraMemory(tmp_path, "key", LaterClock())
    assert later.recall() is (None if era is Era.LEGACY else era)
    assert later.is_known()


def test_a_memory_that_cannot_be_kept_is_no_failure(tmp_path: Path):
    (tmp_path / "file").write_text("in the way")
    for memory in (EraMemory(tmp_path / "file", "key"), EraMemory(None, "key")):
        memory.remember(Era.MODERN)
        assert memory.recall() is None


def test_nonsense_on_disk_is_no_memory(tmp_path: Path):
    (tmp_path / "mcp-protocols").mkdir()
    (tmp_path / "mcp-protocols" / "key").write_text("medieval")
    assert EraMemory(tmp_path, "key").recall() is None


@pytest.mark.parametrize(
    "other", [{"command": "b"}, {"command": "a", "args": ["x"]}, {"command": "a", "cwd": "/"}]
)
def test_another_program_is_another_server(other: dict[str, Any]):
    one = McpServerConfig(command="a")
    assert identity(one) == identity(McpServerConfig(command="a", env={"KEY": "changed"}))
    assert identity(one) != identity(McpServerConfig.model_validate(other))


def test_a_logged_line_has_no_control_characters_and_an_end():
    assert printable("a\x1b[31mb\nc\u202ed  ") == "a [31mb c d"
    assert printable("x" * 20, limit=5) == "xxxxx…"


def test_stderr_is_cut_after_it_was_redacted(caplog: pytest.LogCaptureFixture):
    secret = "s3cret" * 10
    tail = StderrTail("s", knowing(secret), StillClock())
    tail.feed(b"x" * 4080 + secret.encode()[:30])
    tail.feed(secret.encode()[30:] + b"\nhalf a line")
    assert tail.tail() == ("x" * 4080 + "[REDACTED]", "half a line")
    assert secret[:6] not in caplog.text


def test_npm_notices_do_not_push_out_what_went_wrong():
    tail = StderrTail("s", Redactor(), StillClock())
    tail.feed(b"npm error 404 Not Found\n" + b"npm notice New version!\n" * 300)
    assert tail.tail() == ("npm error 404 Not Found",)


def test_lines_that_were_not_shown_are_counted(caplog: pytest.LogCaptureFixture):
    clock = StillClock()
    tail = StderrTail("s", Redactor(), clock)
    tail.feed(b"line\n" * 500)
    clock.monotonic = lambda: 10.0
    tail.feed(b"later\n")
    assert "400 lines not shown" in caplog.text
    assert caplog.records[-1].levelno == logging.WARNING


def test_the_most_telling_error_of_a_group_is_found():
    group = ExceptionGroup("a", [ValueError("x"), ExceptionGroup("b", [NeedsLogin("401")])])
    assert str(first_cause(group)) == "401"
    assert str(first_cause(ValueError("x"))) == "x"


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (TimeoutError(), "no answer in time"),
        (ConnectionFailed("gone"), "gone"),
        (OSError(), "OSError"),
        (ValueError("x"), "ValueError: x"),
        (ValueError(), "ValueError"),
    ],
)
def test_errors_are_put_into_words(error: Exception, words: str):
    assert error_text(error) == words


@pytest.mark.requirement("FR-2.1")
async def test_a_listing_asks_for_every_page_and_stops_at_a_circle():
    pages: dict[str | None, dict[str, Any]] = {
        None: {"tools": [{"name": "a", "inputSchema": {}}], "nextCursor": "1"},
        "1": {"tools": [{"name": "b", "inputSchema": {}}, 7], "nextCursor": "2"},
        "2": {"tools": "nonsense", "nextCursor": "1"},
    }

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        assert method == "tools/list"
        return pages[params.get("cursor")]

    found = await listing.fetch(ask, "tools")
    assert [tool.name for tool in found["tools"].entries] == ["a", "b"]
    assert found["tools"].dropped == ["tools: '?' was left out (not an object)"]


async def test_a_catalogue_that_is_refused_is_empty_and_said_so():
    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RemoteError(-32601, "unknown method")

    found = await listing.fetch(ask, "resources")
    whole = listing.merged(Listing(instructions="x", dropped=("tools: kept",)), found)
    assert (whole.resources, whole.resource_templates, whole.instructions) == ((), (), "x")
    assert [note.partition(":")[0] for note in whole.dropped] == [
        "tools",
        "resources",
        "resourceTemplates",
    ]


SECRET = "canary-Zq7f3a9c21d4e8Xw"


def hide(text: str) -> str:
    return text.replace(SECRET, "[REDACTED]")


@pytest.mark.parametrize(
    ("kind", "field", "key", "entry"),
    [
        ("tools", "tools", "name", {"name": "x", "inputSchema": {"type": "object"}}),
        ("prompts", "prompts", "name", {"name": "x"}),
        ("resources", "resources", "uri", {"name": "x", "uri": "a://x"}),
        ("resources", "resourceTemplates", "uriTemplate", {"name": "x", "uriTemplate": "a://{x}"}),
    ],
)
async def test_what_can_only_be_asked_for_with_a_secret_is_left_out(
    kind: str, field: str, key: str, entry: dict[str, Any]
):
    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {field: [entry, {**entry, "name": f"t{SECRET}", key: f"a://{SECRET}"}]}

    found = listing.merged(Listing(), await listing.fetch(ask, kind, hide))
    entries = (*found.tools, *found.prompts, *found.resources, *found.resource_templates)
    assert [one.name for one in entries] == ["x"]
    (note,) = found.dropped
    assert note.endswith(f"was left out (its {key} contains a secret)")
    assert SECRET not in note


async def test_no_text_of_a_declaration_holds_a_secret():
    entry: dict[str, Any] = {
        "name": "x",
        "title": SECRET,
        "description": f"say {SECRET}",
        "inputSchema": {"type": "object", "properties": {SECRET: {"enum": [f"a{SECRET}", 1]}}},
        "outputSchema": {"type": "object", "title": SECRET},
        "annotations": {"title": SECRET},
        "_meta": {"a": SECRET},
    }
    resource = {"name": f"r{SECRET}", "uri": "a://x", "mimeType": SECRET}

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"tools": [entry], "resources": [resource]}

    tools = (await listing.fetch(ask, "tools", hide))["tools"]
    resources = (await listing.fetch(ask, "resources", hide))["resources"]
    assert (len(tools.entries), len(resources.entries)) == (1, 1)
    assert tools.entries[0].input_schema["properties"] == {
        "[REDACTED]": {"enum": ["a[REDACTED]", 1]}
    }
    assert resources.entries[0].name == "r[REDACTED]"
    assert SECRET not in repr((tools, resources))


async def test_why_a_server_does_not_list_is_told_on_one_line_and_without_secrets():
    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        raise RemoteError(-1, f"no\n\x1b[31m{SECRET}")

    (note,) = (await listing.fetch(ask, "tools", hide))["tools"].dropped
    assert note.isprintable()
    assert "[REDACTED]" in note
    assert SECRET not in note


async def test_one_page_may_not_hold_more_than_we_take():
    entries = [{"name": f"p{n}"} for n in range(bounds.MAX_PROMPTS + 3)]

    async def ask(method: str, params: dict[str, Any]) -> dict[str, Any]:
        return {"prompts": entries}

    found = await listing.fetch(ask, "prompts")
    assert len(found["prompts"].entries) == bounds.MAX_PROMPTS
    assert found["prompts"].dropped == ["prompts: 3 past the limit left out"]


@pytest.mark.parametrize("transport", ["http", "stdio"])
async def test_tools_whose_headers_are_not_possible_are_left_out_where_headers_are_sent(
    transport: str,
):
    handlers = RequestHandlers("fake", (), None, decline)
    session = ServerSession("fake", cast("Any", None), handlers, transport)
    session.handshake_result = Handshake(REVISIONS["2026-07-28"])
    bad = {"type": "object", "properties": {"x": {"type": "string", "x-mcp-header": "a b"}}}
    tools = (Tool(name="good", input_schema={"type": "object"}), Tool(name="bad", input_schema=bad))
    listed = listing.without(Listing(tools=tools, dropped=("prompts: one",)), session.refuses)
    expected = ["good"] if transport == "http" else ["good", "bad"]
    assert [tool.name for tool in listed.tools] == expected
    assert listed.dropped[0] == "prompts: one"
    assert len(listed.dropped) == 3 - len(expected)
