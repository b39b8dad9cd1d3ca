"""`openclaw sessions`, through the program's own entry point."""

import json
import os
import sys
from pathlib import Path

import anyio
import pytest
from rich.cells import cell_len
from tests.support.terminal import on_terminal

from openclaw.cli.main import run
from openclaw.content.frame import frame
from openclaw.core.clock import SystemClock
from openclaw.core.events import Usage
from openclaw.core.outcome import Outcome
from openclaw.sessions.records import EntryKind, NewEntry
from openclaw.sessions.sqlite.store import open_sqlite_store

Captured = pytest.CaptureFixture[str]


async def fill(path: Path) -> None:
    async with open_sqlite_store(path, SystemClock()) as store:
        for agent, key in (("main", "trip"), ("main", "work"), ("research", "work")):
            session = await store.open_session(agent, key)
            async with store.acquire_lane(session) as lane:
                text = f"tell me of {key}\x1b[31m and \u202emirrors"
                turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, text)])
                await lane.append(
                    turn, [NewEntry(EntryKind.TOOL_CALL, {"name": "web_fetch"}, call_id="1")]
                )
                await lane.append(turn, [NewEntry(EntryKind.TOOL_RESULT, {}, "ok", call_id="1")])
                answer = NewEntry(EntryKind.ASSISTANT_MESSAGE, {}, "x" * 5000)
                used = Usage(input_tokens=12_345, output_tokens=67)
                await lane.finish_turn(turn, Outcome.OK, [answer], usage=used)
        await store.set_title(await store.open_session("main", "trip"), "Norway \x1b]0;owned\x07")
        session = await store.open_session("main", "trip")
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn(turn="half")
            await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL, {}, call_id="2")])


@pytest.fixture
def stored(home: Path) -> Path:
    path = home / ".openclaw" / "sessions.db"
    anyio.run(fill, path)
    return path


def sessions(*arguments: str) -> int:
    return run("openclaw", ["sessions", *arguments])


def test_nothing_stored_is_said_and_creates_nothing(home: Path, capsys: Captured) -> None:
    assert sessions() == 0
    assert capsys.readouterr().out == "No conversations yet.\n"
    assert sessions("--json") == 0
    assert json.loads(capsys.readouterr().out) == {"sessions": [], "more": False}
    assert sessions("search", "x") == 0
    assert sessions("show", "x") == 1
    assert not (home / ".openclaw" / "sessions.db").exists()


def test_a_listing_fits_a_terminal_and_cannot_steer_it(stored: Path, capsys: Captured) -> None:
    assert sessions() == 0
    out = capsys.readouterr().out
    assert max(len(line) for line in out.splitlines()) <= 80
    assert "\x1b" not in out
    assert "research" in out
    assert "12k" in out
    assert "Norway" in out
    assert [line.split()[0] for line in out.splitlines()] == ["KEY", "trip", "work", "work"]


def test_orders_and_api_calls_are_listed_only_on_request(stored: Path, capsys: Captured) -> None:
    async def order() -> None:
        async with open_sqlite_store(stored, SystemClock()) as store:
            await store.open_session("main", "mcp-1-order")
            await store.open_session("main", "http-call")

    anyio.run(order)
    assert sessions() == 0
    out = capsys.readouterr().out
    assert "mcp-1-order" not in out
    assert "2 more: orders, API calls and scheduled jobs. List them with --all." in out
    assert sessions("list", "--all") == 0
    out = capsys.readouterr().out
    assert "mcp-1-order" in out
    assert "--all" not in out
    assert sessions("--search", "http-") == 0
    assert "http-call" in capsys.readouterr().out


def test_a_long_key_is_folded_and_never_cut(
    home: Path, capsys: Captured, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "80")

    async def open_long(path: Path) -> None:
        async with open_sqlite_store(path, SystemClock()) as store:
            session = await store.open_session("main", "abc" * 60)
            await store.set_title(session, "a title that is much too long for what is left " * 3)
            await store.open_session("main", "東京" * 30)

    anyio.run(open_long, home / ".openclaw" / "sessions.db")
    assert sessions() == 0
    lines = capsys.readouterr().out.splitlines()
    assert max(cell_len(line) for line in lines) <= 80
    first = "".join(line.split()[0] for line in lines[1:] if not line.startswith("  "))
    assert first == "東京" * 30 + "abc" * 60


def test_a_listing_for_programs_is_json_alone(stored: Path, capsys: Captured) -> None:
    assert sessions("--json", "--limit", "1", "--agent", "main") == 0
    listing = json.loads(capsys.readouterr().out)
    assert listing["more"] is True
    (first,) = listing["sessions"]
    assert (first["key"], first["usage"]["inputTokens"]) == ("trip", 12_345)
    assert sessions("list", "--search", "norw", "--json") == 0
    assert [s["key"] for s in json.loads(capsys.readouterr().out)["sessions"]] == ["trip"]
    assert sessions("--search", "nothing like it") == 0
    assert capsys.readouterr().out == "No conversations match.\n"
    assert sessions("--limit", "1") == 0
    assert "use --limit to see more" in capsys.readouterr().out


def test_a_conversation_is_shown_with_what_is_unfinished(stored: Path, capsys: Captured) -> None:
    assert sessions("show", "trip") == 0
    out = capsys.readouterr().out
    assert "tell me of trip\\x1b[31m and \\u202emirrors" in out
    assert "web_fetch" in out
    assert "[… 1000 more characters; see --raw]" in out
    assert "Turn half was interrupted, with 1 call of unknown outcome." in out
    assert sessions("show", "trip", "--limit", "2", "--json") == 0
    shown = json.loads(capsys.readouterr().out)
    assert [entry["kind"] for entry in shown["entries"]] == ["tool_call", "turn_lost"]
    assert shown["unfinishedTurns"][0]["openCalls"] == ["2"]
    assert sessions("show", "trip", "--limit", "2") == 0
    assert "(entries 8 to 9; use --limit to see more)" in capsys.readouterr().out


def test_a_key_is_found_by_what_the_list_prints(home: Path, capsys: Captured) -> None:
    async def open_odd(path: Path) -> None:
        async with open_sqlite_store(path, SystemClock()) as store:
            await store.open_session("main", "a\nb\x1b[31m")

    anyio.run(open_odd, home / ".openclaw" / "sessions.db")
    assert sessions() == 0
    printed = capsys.readouterr().out.splitlines()[1].split()[0]
    assert printed == "a\\nb\\x1b[31m"
    assert sessions("show", printed) == 0
    assert printed in capsys.readouterr().out
    assert sessions("show", "a\\nc") == 1
    assert sessions("delete", "--yes", printed) == 0
    assert "with 0 messages" in capsys.readouterr().out


def test_a_stored_secret_that_nothing_refers_to_is_not_shown(
    home: Path, stored: Path, capsys: Captured
) -> None:
    store = home / ".openclaw" / "secrets.json"
    store.write_text('{"UNUSED": "tell me of trip"}')
    assert sessions("show", "trip") == 0
    assert "tell me of trip" not in capsys.readouterr().out
    store.write_text("[")  # whoever needs a value says that it is damaged
    assert sessions("show", "trip") == 0
    assert "tell me of trip" in capsys.readouterr().out


def test_a_key_of_several_agents_needs_one_named(stored: Path, capsys: Captured) -> None:
    assert sessions("show", "work") == 2
    assert "main, research" in capsys.readouterr().err
    assert sessions("show", "work", "--agent", "research") == 0


def test_an_export_is_one_json_object_a_line(stored: Path, capsys: Captured) -> None:
    assert sessions("export", "trip") == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert lines[0]["type"] == "session"
    assert [line["seq"] for line in lines[1:]] == list(range(1, 10))
    assert lines[2]["text"].endswith("\u202emirrors")


def test_an_export_can_be_read_as_markdown(stored: Path, capsys: Captured) -> None:
    assert sessions("export", "trip", "--format", "md") == 0
    out = capsys.readouterr().out
    assert out.startswith("# ")
    assert "\n## You, " in out
    assert "\n## Agent, " in out
    assert "\x1b" not in out


def test_a_search_shows_where_the_words_are(stored: Path, capsys: Captured) -> None:
    assert sessions("search", "tell", "trip") == 0
    out = capsys.readouterr().out
    assert "trip  " in out
    assert "user, entry 2" in out
    assert "\\x1b[31m" in out
    assert sessions("search", "tell", "--json", "--agent", "research") == 0
    (hit,) = json.loads(capsys.readouterr().out)["hits"]
    assert (hit["session"]["agent"], hit["seq"], hit["kind"]) == ("research", 2, "user_message")
    assert sessions("search", "unheard") == 0
    assert capsys.readouterr().out == "Nothing found.\n"


async def say_framed(path: Path) -> None:
    async with (
        open_sqlite_store(path, SystemClock()) as store,
        store.acquire_lane(await store.open_session("main", "clock")) as lane,
    ):
        turn = await lane.begin_turn(turn="one")
        await lane.append(turn, [NewEntry(EntryKind.TOOL_CALL, {}, call_id="1")])
        said = frame("It is noon\nsharp", sender="time")
        await lane.append(turn, [NewEntry(EntryKind.TOOL_RESULT, {}, said, call_id="1")])


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_a_search_shows_what_was_said_and_not_its_frame(
    home: Path, capsys: Captured, options: tuple[str, ...]
) -> None:
    anyio.run(say_framed, home / ".openclaw" / "sessions.db")
    assert sessions("search", "noon", *options) == 0
    out = capsys.readouterr().out
    assert "It is noon sharp" in out
    assert "EXTERNAL" not in out
    assert "This is " not in out


def test_a_conversation_is_deleted_for_good(stored: Path, capsys: Captured) -> None:
    assert sessions("delete", "trip", "--yes") == 0
    assert capsys.readouterr().out == "Deleted 'trip' with 2 messages.\n"
    assert sessions("delete", "trip", "--yes", "--json") == 1
    assert json.loads(capsys.readouterr().out)["error"]["type"] == "NotFound"
    assert sessions("delete", "work", "--agent", "main", "--yes", "--json") == 0
    assert json.loads(capsys.readouterr().out)["deleted"]["key"] == "work"


@pytest.mark.requirement("O-12")
def test_another_store_is_named_on_the_command_line(
    stored: Path, tmp_path: Path, capsys: Captured
) -> None:
    assert sessions("--store", str(stored), "--json") == 0
    assert len(json.loads(capsys.readouterr().out)["sessions"]) == 3
    assert sessions("--store", str(tmp_path / "none.db")) == 1
    assert "There is no session store" in capsys.readouterr().err
    assert sessions("list", "--store", "postgresql://me:hunter2@host/db") == 1
    assert "hunter2" not in capsys.readouterr().err


@pytest.mark.parametrize("limit", ["0", "-1", "x"])
def test_a_limit_is_a_positive_number(limit: str, capsys: Captured) -> None:
    assert sessions("--limit", limit) == 2


def test_nothing_is_deleted_where_nobody_can_be_asked(stored: Path, capsys: Captured) -> None:
    assert sessions("delete", "trip") == 2
    assert "--yes" in capsys.readouterr().err
    assert sessions("delete", "trip", "--json") == 2
    assert sessions("show", "trip") == 0


@pytest.mark.parametrize(("answer", "left"), [("y", False), ("", True), ("n", True)])
def test_on_a_terminal_deleting_is_asked_about(stored: Path, answer: str, *, left: bool) -> None:
    command = [sys.executable, "-m", "openclaw", "sessions", "delete", "trip"]
    with on_terminal(command, dict(os.environ)) as terminal:
        assert "Norway" in terminal.until("Continue? [y/N]")
        terminal.type(f"{answer}\n")
        assert terminal.ended() == 0
    assert (sessions("show", "trip") == 0) is left


def test_only_the_conversation_that_was_asked_about_is_deleted(stored: Path) -> None:
    async def replace() -> None:
        async with open_sqlite_store(stored, SystemClock()) as store:
            await store.delete(await store.open_session("main", "trip"))
            await store.open_session("main", "trip")

    command = [sys.executable, "-m", "openclaw", "sessions", "delete", "trip"]
    with on_terminal(command, dict(os.environ)) as terminal:
        terminal.until("Continue? [y/N]")
        anyio.run(replace)
        terminal.type("y\n")
        terminal.ended()
    assert sessions("show", "trip") == 0


def test_an_interrupt_ends_the_question_and_deletes_nothing(stored: Path) -> None:
    command = [sys.executable, "-m", "openclaw", "sessions", "delete", "trip"]
    with on_terminal(command, dict(os.environ)) as terminal:
        terminal.until("Continue? [y/N]")
        terminal.type("\x03")
        assert terminal.ended() == 130
    assert sessions("show", "trip") == 0


@pytest.mark.parametrize("limit", ["x", "0", "-1", "1.5", "²"])
def test_a_limit_that_is_no_number_is_said_in_words(limit: str, capsys: Captured) -> None:
    assert sessions(f"--limit={limit}") == 2
    err = capsys.readouterr().err
    assert "must be a whole number from 1 to 1000000" in err
    assert "_positive" not in err


async def fill_calls(path: Path) -> None:
    async with open_sqlite_store(path, SystemClock()) as store:
        session = await store.open_session("main", "calls")
        async with store.acquire_lane(session) as lane:
            turn = await lane.begin_turn([NewEntry(EntryKind.USER_MESSAGE, {}, "what time is it")])
            call = {"name": "mcp_time_now", "arguments": {"zone": "Asia/Tokyo", "pad": "x" * 500}}
            entries = [NewEntry(EntryKind.ASSISTANT_MESSAGE, {})]
            entries += [NewEntry(EntryKind.TOOL_CALL, call, "mcp_time_now", call_id="1")]
            await lane.append(turn, entries)
            said = frame("12:00\nsharp", sender="time")
            entries = [NewEntry(EntryKind.TOOL_RESULT, {}, said, call_id="1")]
            await lane.append(turn, entries)
            await lane.finish_turn(turn, Outcome.OK, [])


def test_a_result_is_shown_as_its_servers_words_and_a_call_with_its_arguments(
    home: Path, capsys: Captured
) -> None:
    anyio.run(fill_calls, home / ".openclaw" / "sessions.db")
    assert sessions("show", "calls") == 0
    out = capsys.readouterr().out
    assert "from MCP server time\n12:00\nsharp\n" in out
    assert "UNTRUSTED" not in out
    assert 'mcp_time_now {"zone": "Asia/Tokyo"' in out
    assert "x" * 300 not in out
    assert "assistant" not in out, "it said nothing"
    assert sessions("show", "calls", "--raw") == 0
    out = capsys.readouterr().out
    assert "assistant" in out
    assert "<<<EXTERNAL_UNTRUSTED_CONTENT" in out
    assert "x" * 500 in out
