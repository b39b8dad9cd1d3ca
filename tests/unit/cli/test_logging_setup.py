import asyncio
import io
import json
import logging
import subprocess
import sys
import textwrap
import threading
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from openclaw.cli import logging_setup
from openclaw.cli.logging_setup import LogStream, configure, open_log_file
from openclaw.secrets.redactor import Redactor
from openclaw.secrets.refs import Secret

SECRET = 'sword"fish-and-chips'


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def redactor() -> Redactor:
    redactor = Redactor()
    redactor.register(SECRET)
    return redactor


@pytest.fixture(autouse=True)
def undo() -> Iterator[None]:
    yield
    logging_setup._undo.close()


def human(redactor: Redactor, level: str = "debug") -> io.StringIO:
    stream = io.StringIO()
    configure(level, json=False, redactor=redactor, stream=stream)
    return stream


def machine(redactor: Redactor, level: str = "debug") -> io.StringIO:
    stream = io.StringIO()
    configure(level, json=True, redactor=redactor, stream=stream)
    return stream


def records(stream: io.StringIO) -> list[dict[str, Any]]:
    return [json.loads(line) for line in stream.getvalue().splitlines()]


logger = logging.getLogger("openclaw.test")


def test_a_line_for_a_person(redactor: Redactor) -> None:
    stream = human(redactor)
    logger.warning("server %s is slow", "docs", extra={"server": "docs", "ms": 12})
    time, rest = stream.getvalue().split(" ", 1)
    assert len(time) == len("20:41:27.123")
    assert rest == "WARNING openclaw.test: server docs is slow server=docs ms=12\n"


def test_a_plain_line_has_neither_time_nor_names(redactor: Redactor) -> None:
    stream = io.StringIO()
    configure("warning", False, redactor, stream, plain=True)
    logger.warning("server %s is slow", "docs", extra={"server": "docs"})
    assert stream.getvalue() == "Warning: Server docs is slow\n"


def test_a_line_for_a_machine(redactor: Redactor) -> None:
    stream = machine(redactor)
    logger.info("ready", extra={"server": "docs", "tags": ["a"], "deep": {"b": (1, None, 2.5)}})
    (record,) = records(stream)
    assert record.pop("time").endswith("Z")
    assert record == {
        "level": "info",
        "logger": "openclaw.test",
        "message": "ready",
        "server": "docs",
        "tags": ["a"],
        "deep": {"b": [1, None, 2.5]},
    }


@pytest.mark.requirement("US-6.5")
@pytest.mark.parametrize("make", [human, machine])
def test_secrets_are_replaced_everywhere(make: Any, redactor: Redactor) -> None:
    stream = make(redactor)
    logger.info("message %s", SECRET, extra={"e": SECRET, "n": {SECRET: [SECRET]}, "o": {1: 2}})
    try:
        raise ValueError(SECRET) from RuntimeError(SECRET)
    except ValueError:
        logger.exception("failed", stack_info=True)
    shown = stream.getvalue()
    assert "fish-and-chips" not in shown
    assert shown.count("[REDACTED]") >= 5


@pytest.mark.parametrize("make", [human, machine])
def test_nobody_can_forge_a_record_or_drive_the_terminal(make: Any, redactor: Redactor) -> None:
    stream = make(redactor)
    evil = "x\n20:41:27.123 ERROR openclaw: forged\r\x1b[2J\x9b31m\u202e\u2028\x00"
    logger.info(evil, extra={"server": evil})
    logging.getLogger("openclaw.\nforged").info("x")
    shown = stream.getvalue()
    assert len([line for line in shown.splitlines() if not line.startswith("    ")]) == 2
    assert not [c for c in shown if not c.isprintable() and c != "\n"]


@pytest.mark.parametrize("make", [human, machine])
def test_what_cannot_be_seen_is_written_out(make: Any, redactor: Redactor) -> None:
    stream = make(redactor)
    hidden = "\U000e0041\U000e007f\xad\u034f\u200b\u3164\ufe01\ufeff"
    logger.info("a%sb", hidden)
    assert not set(hidden) & set(stream.getvalue())


def test_a_record_for_a_machine_is_one_line(redactor: Redactor) -> None:
    stream = machine(redactor)
    logger.info("one\ntwo", extra={"server": "three\nfour"})
    assert len(stream.getvalue().splitlines()) == 1


@pytest.mark.parametrize("plain", [True, False])
def test_further_lines_of_a_message_are_indented(redactor: Redactor, plain: bool) -> None:
    stream = io.StringIO()
    configure("warning", False, redactor, stream, plain=plain)
    logger.warning("two problems:\r\n- a\tb\n\n- c%s", "\n20:41:27.123 ERROR   openclaw: forged")
    head, *below = stream.getvalue().splitlines()
    assert head.casefold().endswith("two problems:")
    assert below == ["    - a\\tb", "", "    - c", "    20:41:27.123 ERROR   openclaw: forged"]


def test_a_secret_of_several_lines_is_replaced_whole() -> None:
    redactor = Redactor()
    redactor.register("first-line-of-it\nsecond-line-of-it")
    stream = human(redactor)
    logger.info("it is first-line-of-it\nsecond-line-of-it, really")
    assert stream.getvalue().endswith("openclaw.test: it is [REDACTED], really\n")


def test_line_breaks_without_end_make_no_endless_record(redactor: Redactor) -> None:
    stream = human(redactor)
    logger.info("\n" * 10_000)
    assert len(stream.getvalue().splitlines()) < 300


def test_a_traceback_is_indented_below_its_record(redactor: Redactor) -> None:
    stream = human(redactor)
    try:
        raise ValueError("first\n20:41:27.123 ERROR openclaw: forged")
    except ValueError:
        logger.exception("failed")
    head, *below = stream.getvalue().splitlines()
    assert head.endswith("ERROR   openclaw.test: failed")
    assert below[0] == "    Traceback (most recent call last):"
    assert all(line.startswith("    ") for line in below)


@pytest.mark.parametrize(
    ("message", "argument", "shown"),
    [
        ("token %s", Secret(SECRET), "'token %s' % (Secret([REDACTED]),)"),
        ("too few %s %s", "x", "'too few %s %s' % ('x',)"),
    ],
)
def test_arguments_that_cannot_be_formatted_cost_no_record(
    redactor: Redactor, message: str, argument: Any, shown: str
) -> None:
    stream = human(redactor)
    record = logging.makeLogRecord({"name": "openclaw", "msg": message, "args": (argument,)})
    (ours,) = (handler for handler in logging.getLogger().handlers if type(handler) is LogStream)
    ours.handle(record)
    assert shown in stream.getvalue()


def test_an_extra_that_cannot_be_shown_costs_no_record(redactor: Redactor) -> None:
    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError(SECRET)

    stream = machine(redactor)
    logger.info("x", extra={"broken": Broken()})
    assert records(stream)[0]["broken"] == "<Broken>"


def test_a_line_stays_json_when_a_number_is_secret() -> None:
    redactor = Redactor()
    redactor.register("12345678")
    stream = machine(redactor)
    logger.info("x", extra={"count": 12345678})
    (record,) = records(stream)
    assert "12345678" not in json.dumps(record)
    assert "[REDACTED]" in record["message"]


def test_colour_only_on_a_terminal_and_unless_refused(redactor: Redactor) -> None:
    for environ, coloured in (({}, True), ({"NO_COLOR": "1"}, False)):
        terminal = Terminal()
        configure("info", json=False, redactor=redactor, stream=terminal, environ=environ)
        logger.info("x")
        assert ("\x1b[" in terminal.getvalue()) is coloured
    assert "\x1b[" not in human(redactor).getvalue()


def test_levels_for_us_and_for_others(redactor: Redactor) -> None:
    stream = human(redactor, "info")
    logger.debug("ours, too detailed")
    logger.info("ours")
    logging.getLogger("httpx2").info("theirs, too chatty")
    logging.getLogger("httpx2").warning("theirs")
    assert [line.split(": ", 1)[1] for line in stream.getvalue().splitlines()] == ["ours", "theirs"]


def test_setting_up_again_replaces_the_first(redactor: Redactor) -> None:
    first = human(redactor)
    second = human(redactor)
    logger.info("once")
    assert first.getvalue() == ""
    assert second.getvalue().count("once") == 1


def test_warnings_go_through_the_log(redactor: Redactor) -> None:
    stream = human(redactor)
    with warnings.catch_warnings():
        warnings.simplefilter("always")
        logging.captureWarnings(True)
        warnings.warn(f"careful with {SECRET}", stacklevel=1)
    logging.captureWarnings(False)
    assert "careful with [REDACTED]" in stream.getvalue()


def test_what_nobody_caught_goes_through_the_log(redactor: Redactor) -> None:
    stream = human(redactor)
    error = ValueError(SECRET)
    sys.excepthook(ValueError, error, None)
    sys.excepthook(KeyboardInterrupt, KeyboardInterrupt(), None)
    thread = threading.Thread(target=lambda: (_ for _ in ()).throw(error), name="worker")
    thread.start()
    thread.join()
    threading.excepthook(threading.ExceptHookArgs((SystemExit, SystemExit(), None, None)))
    sys.unraisablehook(_Unraisable(error))  # pyright: ignore[reportArgumentType] - its own type cannot be made
    shown = stream.getvalue()
    assert "uncaught ValueError\n" in shown
    assert "uncaught ValueError in worker" in shown
    assert "while testing: ValueError" in shown
    assert "fish-and-chips" not in shown
    assert "KeyboardInterrupt" not in shown


class _Unraisable:
    exc_type = ValueError
    exc_traceback = None
    err_msg = "while testing"
    object = None

    def __init__(self, error: Exception) -> None:
        self.exc_value = error


def test_a_task_that_failed_unseen_goes_through_the_log(redactor: Redactor) -> None:
    stream = human(redactor)
    loop = asyncio.new_event_loop()
    loop.call_exception_handler({"message": "lost", "exception": ValueError(SECRET)})
    loop.close()
    assert "asyncio: lost" in stream.getvalue()
    assert "fish-and-chips" not in stream.getvalue()


def test_a_stream_that_went_away_is_no_trouble(redactor: Redactor) -> None:
    stream = human(redactor)
    stream.close()
    logger.info("into the void")


def test_the_file_is_private_rotated_and_redacted(redactor: Redactor, tmp_path: Path) -> None:
    file = tmp_path / "logs" / "gateway.log"
    opened = configure(
        "info",
        json=False,
        redactor=redactor,
        stream=io.StringIO(),
        file=open_log_file(file, max_bytes=500, keep=3),
    )
    for number in range(30):
        logger.info("line %d %s", number, SECRET)
    opened.close()
    names = sorted(path.name for path in file.parent.iterdir())
    assert names == ["gateway.log", "gateway.log.1", "gateway.log.2", "gateway.log.3"]
    assert all(path.stat().st_size <= 500 for path in file.parent.iterdir())
    for path in file.parent.iterdir():
        assert path.stat().st_mode & 0o777 == 0o600
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        assert all(line["message"].endswith("[REDACTED]") for line in lines)
    assert file.parent.stat().st_mode & 0o777 == 0o700


def test_a_file_of_which_none_is_kept_begins_anew(redactor: Redactor, tmp_path: Path) -> None:
    file = tmp_path / "logs" / "gateway.log"
    opened = configure(
        "info",
        json=False,
        redactor=redactor,
        stream=io.StringIO(),
        file=open_log_file(file, max_bytes=500, keep=0),
    )
    for number in range(30):
        logger.info("line %d", number)
    opened.close()
    assert [path.name for path in file.parent.iterdir()] == ["gateway.log"]
    assert file.stat().st_size <= 500
    assert json.loads(file.read_text().splitlines()[-1])["message"] == "line 29"


def test_a_file_that_cannot_be_written_does_not_stop_the_work(
    redactor: Redactor, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stream = io.StringIO()
    before = set(logging.getLogger().handlers)
    file = open_log_file(tmp_path / "x", max_bytes=500, keep=3)
    configure("info", json=False, redactor=redactor, stream=stream, file=file)
    added: Any = set(logging.getLogger().handlers) - before
    for handler in added:
        if isinstance(handler, logging.FileHandler) and handler.stream is not None:
            handler.stream.close()
    logger.info("only on the terminal")
    assert "only on the terminal" in stream.getvalue()
    assert capsys.readouterr().err == ""


@pytest.mark.subprocess
def test_the_end_of_a_program_that_fails_shows_no_secret() -> None:
    program = textwrap.dedent(f"""
        import sys
        from openclaw.cli.logging_setup import configure
        from openclaw.secrets.redactor import Redactor
        redactor = Redactor()
        value = {SECRET!r}
        redactor.register(value)
        configure("warning", json=False, redactor=redactor, stream=sys.stderr)
        raise ValueError(value)
    """)
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert done.returncode == 1
    assert "uncaught ValueError" in done.stderr
    assert "fish-and-chips" not in done.stderr


@pytest.mark.parametrize("make", [human, machine])
def test_half_a_character_costs_no_record(make: Any, redactor: Redactor) -> None:
    stream = make(redactor)
    logging.getLogger("openclaw").warning("there is no file %s", "caf\udce9")
    stream.getvalue().encode()
    assert r"there is no file caf\udce9" in stream.getvalue()
