"""Sets up logging: to stderr and, for a daemon, to a file; redacted after formatting.

Control characters in a message are escaped and continuation lines are indented, so that logged
text can't forge a record or control the terminal.
"""

import json as jsonlib
import logging
import os
import sys
import threading
import traceback
from collections.abc import Generator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, TextIO

from openclaw.cli.environment import Environment
from openclaw.cli.terminal import Redact, visible, wants_colour
from openclaw.config.paths import CLOEXEC, private_directory
from openclaw.core.errors import OpenClawError, sentence
from openclaw.secrets.redactor import Redactor, redacted_tree

if TYPE_CHECKING:
    from argparse import Namespace

    from openclaw.mcp_server.options import Options

MAX_RECORD: Final = 64 * 1024
_MAX_BREAKS: Final = 200  # line breaks per message; further ones are escaped

_PLAIN_ATTRIBUTES: Final = frozenset(
    (*vars(logging.makeLogRecord({})), "message", "asctime", "taskName")
)
_COLOURS: Final = {"DEBUG": "2", "INFO": "36", "WARNING": "33", "ERROR": "31", "CRITICAL": "1;31"}


def message_of(record: logging.LogRecord) -> str:
    try:
        return record.getMessage()
    except Exception:  # noqa: BLE001 - a record must not be lost, nor raise into its caller
        return f"{record.msg!r} % {record.args!r}"


def extra_of(record: logging.LogRecord) -> dict[str, Any]:
    return {key: value for key, value in vars(record).items() if key not in _PLAIN_ATTRIBUTES}


def _traceback_of(record: logging.LogRecord) -> str:
    parts: list[str] = []
    if record.exc_info and record.exc_info[1] is not None:
        parts += traceback.format_exception(record.exc_info[1])
    if record.stack_info:
        parts.append(record.stack_info)
    return "".join(parts)


def _time_of(record: logging.LogRecord) -> datetime:
    return datetime.fromtimestamp(record.created, tz=UTC)


class HumanFormatter(logging.Formatter):
    """For a person; with `plain`, only the level and the message."""

    def __init__(self, redact: Redact, *, colour: bool, plain: bool = False) -> None:
        super().__init__()
        self._redact, self._colour, self._plain = redact, colour, plain

    def format(self, record: logging.LogRecord) -> str:
        fields = {} if self._plain else extra_of(record)
        extra = "".join(f" {key}={_shown(value)}" for key, value in fields.items())
        message = self._redact(message_of(record) + extra)[:MAX_RECORD].replace("\r\n", "\n")
        lines = message.split("\n", _MAX_BREAKS)
        lines += self._redact(_traceback_of(record)).splitlines()
        first, *more = map(self._visibly, lines)
        below = "".join(f"\n    {line}".rstrip(" ") for line in more)
        level = record.levelname.capitalize() if self._plain else f"{record.levelname:<7}"
        colour = _COLOURS.get(record.levelname)
        level = f"\x1b[{colour}m{level}\x1b[0m" if self._colour and colour else level
        if self._plain:
            return f"{level}: {sentence(first)}{below}"
        time = f"{_time_of(record):%H:%M:%S.%f}"[:-3]
        return f"{time} {level} {visible(record.name)}: {first}{below}"

    def _visibly(self, line: str) -> str:
        """The line with invisible characters escaped, redacted again if that changed it."""
        shown = visible(line)
        return line if shown == line else self._redact(shown)


class JsonFormatter(logging.Formatter):
    def __init__(self, redact: Redact) -> None:
        super().__init__()
        self._redact = redact

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time_of(record).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": self._redact(message_of(record))[:MAX_RECORD],
        }
        fields |= {k: v for k, v in extra_of(record).items() if k not in fields}
        trace = _traceback_of(record)
        if trace:
            fields["traceback"] = self._redact(trace)[:MAX_RECORD]
        line = _dumps(redacted_tree(fields, self._redact))
        redacted = self._redact(line)
        try:
            if redacted != line:
                jsonlib.loads(redacted)
        except ValueError:  # a secret that is not in a string, such as a number
            return _dumps({"level": "info", "message": redacted})
        return redacted


def _dumps(value: Any) -> str:
    return jsonlib.dumps(value, separators=(",", ":"), default=_shown)


def _shown(value: Any) -> str:
    try:
        return value if isinstance(value, str) else repr(value)
    except Exception:  # noqa: BLE001 - a record must not be lost, nor raise into its caller
        return f"<{type(value).__name__}>"


class LogStream(logging.StreamHandler[TextIO]):
    def handleError(self, record: logging.LogRecord) -> None:
        """Report a lost record without its content; the stream may be gone."""
        with suppress(OSError, ValueError):
            self.stream.write(f"a log record of {record.name} could not be written\n")


_undo = ExitStack()  # undoes `configure`


def configure(
    level: str,
    json: bool,
    redactor: Redactor,
    stream: TextIO,
    file: logging.Handler | None = None,
    environ: Mapping[str, str] | None = None,
    *,
    plain: bool = False,
) -> ExitStack:
    """Send our records of `level` and up, and other libraries' warnings, to `stream` and `file`.

    Calling it again replaces what an earlier call set up; closing the result undoes it.
    """
    _undo.close()
    as_json = JsonFormatter(redactor.redact)
    colour = wants_colour(stream, environ or {})
    human = HumanFormatter(redactor.redact, colour=colour, plain=plain)
    _add(logging.getLogger(), LogStream(stream), as_json if json else human, _undo)
    if file is not None:
        _add(logging.getLogger(), file, as_json, _undo)
    number = logging.getLevelNamesMapping()[level.upper()]
    warnings = logging.WARNING if number <= logging.INFO else logging.ERROR
    for name, least in (
        ("openclaw", number),
        ("", max(number, logging.WARNING)),
        ("py.warnings", warnings),
    ):
        named = logging.getLogger(name)
        _undo.callback(named.setLevel, named.level)
        named.setLevel(least)
    _catch_everything()
    return _undo


def configure_for(
    env: Environment,
    args: "Namespace | Options",
    stream: TextIO | None = None,
    *,
    plain: bool = True,
) -> None:
    """For a command: on stderr; if `plain`, without times and loggers' names unless it is verbose."""
    configure(
        level="debug" if args.verbose else "warning",
        json=args.log_json,
        redactor=env.redactor,
        stream=stream or env.stderr,
        environ=env.environ,
        plain=plain and not args.verbose,
    )


def _add(
    logger: logging.Logger, handler: logging.Handler, formatter: logging.Formatter, undo: ExitStack
) -> None:
    def remove() -> None:
        logger.removeHandler(handler)
        with suppress(OSError, ValueError):  # the disk may be full
            handler.close()

    handler.setFormatter(formatter)
    logger.addHandler(handler)
    undo.callback(remove)


logger = logging.getLogger("openclaw")


def _catch_everything() -> None:
    before = sys.excepthook, threading.excepthook, sys.unraisablehook

    def put_back() -> None:
        sys.excepthook, threading.excepthook, sys.unraisablehook = before
        logging.captureWarnings(False)

    def in_thread(args: threading.ExceptHookArgs) -> None:
        name = args.thread.name if args.thread else "a thread"
        _uncaught(args.exc_type, args.exc_value, args.exc_traceback, f" in {name}")

    def unraisable(args: "sys.UnraisableHookArgs") -> None:
        if (error := args.exc_value) is not None:
            info = (args.exc_type, error, args.exc_traceback)
            logger.error("%s: %s", args.err_msg or "ignored", type(error).__name__, exc_info=info)

    _undo.callback(put_back)
    sys.excepthook, threading.excepthook, sys.unraisablehook = _uncaught, in_thread, unraisable
    logging.captureWarnings(True)


def _uncaught(
    kind: type[BaseException],
    error: BaseException | None,
    trace: TracebackType | None,
    where: str = "",
) -> None:
    if error is not None and not isinstance(error, KeyboardInterrupt | SystemExit):
        logger.critical("uncaught %s%s", kind.__name__, where, exc_info=(kind, error, trace))


def open_log_file(path: Path, *, max_bytes: int, keep: int) -> logging.Handler:
    class PrivateRotatingFile(RotatingFileHandler):
        def doRollover(self) -> None:
            super().doRollover()
            if self.backupCount == 0 and self.stream is not None:
                self.stream.truncate(0)
            self.make_private()

        def make_private(self) -> None:
            if self.stream is not None and sys.platform != "win32":
                os.fchmod(self.stream.fileno(), 0o600)

        def handleError(self, record: logging.LogRecord) -> None:
            """A full disk must not stop the work; the record is also on stderr."""

    path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    # Created here, so that it is private from the beginning.
    os.close(os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | CLOEXEC, 0o600))
    handler = PrivateRotatingFile(
        path, maxBytes=max_bytes, backupCount=keep, encoding="utf-8", errors="backslashreplace"
    )
    handler.make_private()  # it may be an older file
    return handler


SERVERS_LOG: Final = "servers.log"
SHOWN_LINES: Final = 5  # last lines of a failed server's stderr, shown to the person

_CLIENT: Final = "openclaw.mcp_client"
_STDERR: Final = "openclaw.mcp_client.transport.child_process"
_FILE_BYTES: Final = 2 * 1024 * 1024
_FILES_KEPT: Final = 1


@contextmanager
def servers_logged(env: Environment, *, reported: bool = False) -> Generator[None]:
    """Log what servers write to stderr to a file; with `--verbose` also to our stderr.

    `reported` is for commands that report each server's state: the client's own records go there too.
    """
    logger = logging.getLogger(_CLIENT if reported else _STDERR)
    before, verbose = logger.propagate, logger.isEnabledFor(logging.DEBUG)
    with ExitStack() as undo:
        try:
            path = private_directory(env.paths.logs) / SERVERS_LOG
            handler = open_log_file(path, max_bytes=_FILE_BYTES, keep=_FILES_KEPT)
        except (OpenClawError, OSError):
            pass  # a state directory that cannot be written is reported elsewhere
        else:
            _add(logger, handler, JsonFormatter(env.redactor.redact), undo)
        undo.callback(setattr, logger, "propagate", before)
        logger.propagate = before and verbose
        yield


def last_words(lines: tuple[str, ...]) -> list[str]:
    return [f"    | {line}" for line in lines[-SHOWN_LINES:]]
