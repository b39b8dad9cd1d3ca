"""What MCP servers write to their stderr, kept in a file: a person who asks a question wants the answer."""

import logging
from collections.abc import Generator
from contextlib import contextmanager
from typing import Final

from openclaw.cli.environment import Environment
from openclaw.config.paths import private_directory
from openclaw.core.errors import OpenClawError

SERVERS_LOG: Final = "servers.log"
SHOWN_LINES: Final = 5
"""Last words of a server that failed, for a person to see."""

_CLIENT: Final = "openclaw.mcp_client"
_STDERR: Final = "openclaw.mcp_client.stderr"
_FILE_BYTES: Final = 2 * 1024 * 1024
_FILES_KEPT: Final = 1


@contextmanager
def servers_logged(env: Environment, *, reported: bool = False) -> Generator[None]:
    """While this lasts, servers' ordinary words go to a file; with `--verbose` to stderr as well.

    `reported` is for commands that say themselves how each server does: what the client has to say
    about it goes to the file too.
    """
    logger = logging.getLogger(_CLIENT if reported else _STDERR)
    handler = _opened(env)
    verbose = logger.isEnabledFor(logging.DEBUG)
    before = logger.propagate
    if handler is not None:
        logger.addHandler(handler)
    logger.propagate = before and verbose
    try:
        yield
    finally:
        logger.propagate = before
        if handler is not None:
            logger.removeHandler(handler)
            handler.close()


def _opened(env: Environment) -> logging.Handler | None:
    from openclaw.cli.logfile import open_log_file
    from openclaw.cli.logs import JsonFormatter

    try:
        path = private_directory(env.paths.logs) / SERVERS_LOG
        handler = open_log_file(path, max_bytes=_FILE_BYTES, keep=_FILES_KEPT)
    except (OpenClawError, OSError):  # a state directory that cannot be written is told elsewhere
        return None
    handler.setFormatter(JsonFormatter(env.redactor.redact))
    return handler


def last_words(lines: tuple[str, ...]) -> list[str]:
    """The end of what a server said, as lines to put under what is wrong with it."""
    return [f"    | {line}" for line in lines[-SHOWN_LINES:]]
