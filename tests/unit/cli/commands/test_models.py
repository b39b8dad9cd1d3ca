import io

from openclaw.cli.commands.models import progress_bar
from openclaw.embedded.pull import Progress


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_sees_how_far_each_step_is() -> None:
    screen = Terminal()
    with progress_bar(screen, "Weights") as report:
        report(Progress("download", 5, None))
        report(Progress("download", 10, 10))
        report(Progress("check", 10, 10))
    assert "Weights: download" in screen.getvalue()
    assert "Weights: check" in screen.getvalue()


def test_what_is_no_terminal_sees_nothing() -> None:
    file = io.StringIO()
    with progress_bar(file, "Weights") as report:
        report(Progress("download", 5, 10))
    assert file.getvalue() == ""
