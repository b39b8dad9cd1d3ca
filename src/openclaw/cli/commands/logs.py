"""Print the gateway's log; with -f, keep printing new lines."""

import argparse
import json
import time
from collections import deque
from pathlib import Path
from typing import Any

from openclaw.cli.environment import Environment
from openclaw.cli.parser import option, whole_number
from openclaw.cli.terminal import visible_lines
from openclaw.config.paths import check_directory, expand
from openclaw.core.errors import InvalidConfig, NotFound

_LINES, _MOST = 50, 100_000
_POLL_SECONDS = 0.3


def register(parser: argparse.ArgumentParser) -> None:
    option(parser, "-f --follow", "keep printing new lines")
    most = whole_number(1, _MOST)
    option(parser, "-n --lines N", f"how many (default: {_LINES})", type=most, default=_LINES)


def run(args: argparse.Namespace, env: Environment) -> None:
    try:
        named = env.config.logging.file
    except InvalidConfig as error:  # a running gateway keeps its old one, and logs why
        if not env.paths.gateway_log.exists():
            raise
        env.warn(f"{env.program}: Warning: {error.message}; showing {env.paths.gateway_log} anyway")
        named = None
    path = expand(named, env.environ) if named else env.paths.gateway_log
    check_directory(path.parent)
    if not path.exists() and not args.follow:
        hint = f"the gateway writes this log; start one with: {env.program} gateway start"
        raise NotFound(f"nothing has been logged to {path} yet", hint=hint)
    at = 0
    if path.exists():
        with path.open("rb") as file:
            for line in deque(file, args.lines):
                _say(env, line)
            at = file.tell()
    while args.follow:
        time.sleep(_POLL_SECONDS)
        at = _print_from(env, path, at)


def _print_from(env: Environment, path: Path, at: int) -> int:
    try:
        with path.open("rb") as file:
            size = file.seek(0, 2)
            file.seek(at if size >= at else 0)  # a new file has taken its place
            for line in file:
                _say(env, line)
            env.stdout.flush()
            return file.tell()
    except FileNotFoundError:  # between the old file and the new one
        return 0


def _say(env: Environment, line: bytes) -> None:
    """Print a line's time, level and message; each line of the file is a JSON object."""
    text = line.decode("utf-8", "replace").rstrip("\n")
    try:
        record: dict[str, Any] = json.loads(text)
        output = f"{record['time']} {record['level']:<7} {record['message']}"
        output += f"\n{record['traceback']}" if record.get("traceback") else ""
    except (ValueError, KeyError, TypeError):
        output = text
    env.say(visible_lines(output))
