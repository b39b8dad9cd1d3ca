import io

import pytest
from rich.text import Text

from openclaw.cli.terminal import console, wants_colour


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.mark.parametrize(
    ("environ", "terminal", "elsewhere"),
    [
        ({}, True, False),
        ({"NO_COLOR": "1"}, False, False),
        ({"NO_COLOR": ""}, True, False),
        ({"FORCE_COLOR": "1"}, True, True),
        ({"FORCE_COLOR": "0"}, True, False),
        ({"NO_COLOR": "1", "FORCE_COLOR": "1"}, False, False),
        ({"TERM": "dumb"}, False, False),
        ({"TERM": "dumb", "FORCE_COLOR": "1"}, True, True),
        ({"TERM": "xterm-256color"}, True, False),
    ],
)
def test_the_environment_says_whether_there_is_colour(
    environ: dict[str, str], *, terminal: bool, elsewhere: bool
) -> None:
    assert wants_colour(Terminal(), environ) is terminal
    assert wants_colour(io.StringIO(), environ) is elsewhere
    for stream, wanted in ((Terminal(), terminal), (io.StringIO(), elsewhere)):
        console(stream, environ).print(Text("words", style="red"))
        assert ("\x1b[31m" in stream.getvalue()) is wanted


def test_the_processes_own_variables_are_not_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    stream = Terminal()
    console(stream, {"TERM": "xterm"}).print(Text("words", style="red"))
    assert "\x1b[31m" in stream.getvalue()
