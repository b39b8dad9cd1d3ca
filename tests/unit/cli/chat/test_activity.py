from openclaw.cli.chat.turn_view import THINKING, ActivityLine
from openclaw.core.events import Downloading, ServerChanged, ToolFinished, ToolStarted, TurnStarted
from openclaw.core.tools import ToolResult


def test_servers_that_start_are_named_until_the_turn_begins() -> None:
    doing = ActivityLine()
    assert doing.words == THINKING
    for name in "abcde":
        doing.note(ServerChanged(name, "connecting"))
    assert doing.words == "starting a, b, c and 2 more…"
    for name in "abc":
        doing.note(ServerChanged(name, "ready"))
    assert doing.words == "starting d, e…"
    doing.note(TurnStarted("s", "main", "t"))
    assert doing.words == THINKING


def test_tools_that_run_are_named() -> None:
    doing = ActivityLine()
    doing.note(ToolStarted("1", "mcp_a_b", "MCP: a/b", {}))
    assert doing.words == "running MCP: a/b…"
    doing.note(ToolFinished("1", "mcp_a_b", ToolResult(()), 1.0))
    assert doing.words == THINKING


def test_a_download_is_a_bar_until_it_is_done() -> None:
    doing = ActivityLine()
    doing.note(Downloading("embedded model, download", 49_000_000, 98_000_000))
    assert doing.words == f"embedded model, download {'█' * 12}{'░' * 12} 49 of 98 MB"
    doing.note(Downloading("embedded model, download", 98_000_000, 98_000_000))
    assert doing.words == THINKING
    doing.note(Downloading("embedded model, download", 49_000_000, None))
    assert doing.words == "embedded model, download: 49 MB…"
