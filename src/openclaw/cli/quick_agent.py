"""A message through a running gateway, with as little imported as possible.

This is the common case of `openclaw agent`: a message, a few options, and nobody at a terminal. In
all other cases nothing is sent and the command itself takes over. What answers rarely contain (tools,
files, questions, errors, credentials) is shown by the command's own code, imported when needed.
"""

import json
import os
import socket
import stat
import sys
from collections.abc import Iterator
from contextlib import closing
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from openclaw.config.paths import StatePaths, config_path, file_digest, state_dir, workspace_here
from openclaw.gateway.lock import request_headers, running_gateway
from openclaw.net import http1
from openclaw.secrets.shapes import may_hold_credential

if TYPE_CHECKING:
    from openclaw.cli.chat.terminal_questions import CommandLineApprover
    from openclaw.cli.environment import Environment

Json = dict[str, Any]

_VALUES = {"-m": "message", "--message": "message", "--session-key": "session", "--model": "model"}
_FLAGS = {"--json": "json", "--no-questions": "no_questions"}
_LONGEST_KEY = 512
_SHOWN_NOWHERE = (
    *("accepted", "block_reply", "model_called", "question_closed"),
    *("text_delta", "thinking_delta", "turn_finished", "turn_started"),
)
_INTERRUPTED = 130  # as a shell reports SIGINT


def answer(program: str, arguments: list[str]) -> int | None:
    """The exit code; None if nothing was sent and the command itself has to do it."""
    options = _options(arguments)
    if options is None or not _unattended(as_json="json" in options):
        return None
    turn = _Turn(program, options)
    message = turn.message()
    if message is None:
        return None
    try:
        code = turn.run(message)
        sys.stdout.flush()
    except http1.NotReached:
        return None
    except Exception as error:  # noqa: BLE001 - reported as for any command
        return turn.fail(error)
    return code


def _options(arguments: list[str]) -> dict[str, str] | None:
    found: dict[str, str] = {}
    rest = iter(arguments)
    for word in rest:
        if word in _FLAGS:
            found[_FLAGS[word]] = word
            continue
        name, value = (_VALUES[word], next(rest, "-")) if word in _VALUES else ("message", word)
        if name in found or value.startswith("-"):
            return None
        found[name] = value
    usual = found.get("message", "").strip() and 0 < len(found.get("session", "x")) <= _LONGEST_KEY
    return found if usual and _fits("".join(arguments), "utf-8") else None


def _fits(text: str, encoding: str) -> bool:
    try:
        text.encode(encoding)
    except UnicodeEncodeError:
        return False
    return True


def _unattended(*, as_json: bool) -> bool:
    try:
        piped = not stat.S_ISCHR(os.fstat(sys.stdin.fileno()).st_mode)
    except (OSError, ValueError):
        return False
    return not piped and (as_json or not (sys.stdout.isatty() or sys.stderr.isatty()))


class _Turn:
    def __init__(self, program: str, options: dict[str, str]) -> None:
        self._program, self._options = program, options
        self._json = "json" in options
        self._session = options.get("session") or f"chat-{os.urandom(6).hex()}"
        self._environ = os.environ  # noqa: TID251 - `Environment` takes too long to import
        self._root, self._url = state_dir(self._environ), ""

    def message(self) -> Json | None:
        """What to send; None unless a gateway with the same configuration is running."""
        info = running_gateway(StatePaths(self._root).gateway_lock)
        config = config_path(self._environ)
        if info is None or not info.url or Path(info.config) != config:
            return None
        self._url = info.url
        try:
            with closing(self._send("GET", "/api/agents")) as connection:
                status, body = _received(connection)
                agent = json.loads(b"".join(body))["agents"][0]
            name, digest = agent["id"], agent["settings"]["configDigest"]
            if status != 200 or digest != file_digest(config):
                return None  # its redactor has other credentials than ours
        except (OSError, LookupError, TypeError, ValueError):  # also a gateway of another version
            return None
        workspace = workspace_here(self._environ)
        return {
            "text": self._options["message"],
            "sessionKey": self._session,
            "agent": name,
            "origin": "cli",
            "promptCalls": True,
            "workspace": str(workspace) if workspace is not None else None,
            "model": self._options.get("model"),
            "events": not self._json,
            "questions": True,
        }

    def run(self, message: Json) -> int:
        """Print the answer to it; raises `NotReached` if nothing was sent."""
        content = json.dumps(message).encode()
        try:
            with closing(self._send("POST", "/api/messages", content)) as connection:
                reply = self._followed(*_received(connection))
        except KeyboardInterrupt:  # the connection is closed, which stops the turn
            from openclaw.cli.run_command import STOPPING

            sys.stderr.write(STOPPING)
            return _INTERRUPTED
        except http1.BrokenOff as error:
            from openclaw.runtime.gateway_client import gone

            raise gone(error, sent=True) from error
        return self._print(reply)

    def _send(self, method: str, path: str, content: bytes = b"") -> socket.socket:
        headers, where = request_headers(self._root, self._url), urlsplit(self._url)
        if headers is None:
            raise http1.NotReached("the gateway went away")
        try:
            address = (where.hostname or "", where.port or 80)
            connection = socket.create_connection(address, http1.CONNECT_SECONDS)
        except OSError as error:
            raise http1.NotReached(type(error).__name__) from error
        connection.settimeout(http1.SILENCE_SECONDS)
        try:
            connection.sendall(http1.request_bytes(method, where.netloc, path, headers, content))
        except OSError as error:
            connection.close()
            raise http1.BrokenOff(type(error).__name__) from error
        return connection

    def _followed(self, status: int, body: Iterator[bytes]) -> Json:
        if status != 200:
            from openclaw.runtime.gateway_client import checked

            return checked(status, b"".join(body))
        reader = http1.EventReader()
        for piece in body:
            for name, data in reader.feed(piece):
                if name == "reply":
                    return json.loads(data)
                if name not in _SHOWN_NOWHERE:
                    self._show(name, json.loads(data))
        raise http1.BrokenOff("no reply")

    def _show(self, name: str, data: Json) -> None:
        from openclaw.agent.event_codec import error_from, event_from

        if name == "error":
            raise error_from(data)
        if name == "question":
            import anyio

            from openclaw.runtime.gateway_client import GatewayClient

            client = GatewayClient(self._url, self._root)
            anyio.run(client.answer_question, data, self._consent.listener())
        elif event := event_from(name, data):
            from openclaw.cli.chat.turn_view import TurnView

            TurnView(sys.stderr, self._env.redactor.redact, self._environ).show(event)

    def _print(self, reply: Json) -> int:
        text: str = reply["text"]
        asked: CommandLineApprover | None = vars(self).get("_consent")
        fits = _fits(f"{text}{reply}{self._session}", sys.stdout.encoding)
        seldom = self._json or asked or reply["media"] or reply["outcome"] != "ok" or not text
        if fits and not seldom and not may_hold_credential(text):
            sys.stdout.write(text if text.endswith("\n") else f"{text}\n")
            return 0
        from openclaw.agent.event_codec import reply_from
        from openclaw.cli.terminal import report

        if not fits:
            from openclaw.cli.run_command import write_whatever_it_is

            write_whatever_it_is(sys.stdout)
        refused, lacking = (asked.refused, asked.lacking()) if asked else ([], None)
        return report(self._env, reply_from(reply), self._session, refused, lacking, self._json)

    def fail(self, error: Exception) -> int:
        from argparse import Namespace

        from openclaw.cli.run_command import guarded

        def again(*_: object) -> None:
            raise error

        given = Namespace(config=None, verbose=False, log_json=False, json=self._json)
        return guarded(self._program, again, given)

    @cached_property
    def _env(self) -> "Environment":
        from openclaw.cli.environment import Environment

        return Environment(self._program)

    @cached_property
    def _consent(self) -> "CommandLineApprover":
        from openclaw.cli.chat.terminal_questions import CommandLineApprover

        return CommandLineApprover([], None)


def _received(connection: socket.socket) -> tuple[int, Iterator[bytes]]:
    """The status and the body of the answer as it comes; raises `BrokenOff`."""
    parsed = http1.ResponseParser()

    def pieces() -> Iterator[bytes]:
        while not parsed.done:
            try:
                data = connection.recv(http1.READ_BYTES)
            except OSError as error:
                raise http1.BrokenOff(type(error).__name__) from error
            yield parsed.feed(data)

    body = pieces()
    first = b""
    while parsed.status < 200:
        first = next(body)
    return parsed.status, chain((first,), body)
