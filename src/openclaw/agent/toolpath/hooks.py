"""Runs the user's commands on events: before and after a tool, session start, turn end.

They get JSON on stdin and run with the person's rights, without our keys in their environment.
If a command before a tool fails, the call is refused.
"""

import json
import logging
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import anyio
import anyio.abc

from openclaw.agent.redaction import Redact, clean_json
from openclaw.agent.toolpath.wrappers import Refused, Wrapper
from openclaw.agent.tools.exec import exit_code
from openclaw.config.paths import expand
from openclaw.config.schema import HookConfig
from openclaw.content.labels import single_line
from openclaw.core.clock import Clock, random_id
from openclaw.core.content import text_of
from openclaw.core.tools import CallContext, JsonObject, ToolResult, failed
from openclaw.mcp_client.transport import orphan_reaper
from openclaw.mcp_client.transport.environment import child_environment

logger = logging.getLogger(__name__)

_OUTPUT_BYTES = 16_384
_REASON_CHARS = 500
_TEXT_CHARS = 20_000
# What a command needs to show something on the person's screen.
_DESKTOP = ("DISPLAY", "WAYLAND_DISPLAY", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR")


@dataclass(frozen=True, slots=True)
class Hooks:
    commands: Sequence[HookConfig]
    environ: Mapping[str, str]
    redact: Redact
    workspace: Path

    async def fire(self, event: str, tool: str = "", **facts: Any) -> str | None:
        """Run the commands of an event in order, until one fails; returns why it failed."""
        wanted = [
            one
            for one in self.commands
            if one.on == event
            and (not tool or not one.tools or any(fnmatchcase(tool, name) for name in one.tools))
        ]
        if not wanted:
            return None
        payload = {"event": event, **({"tool": tool} if tool else {}), **facts}
        payload = clean_json({**payload, "workspace": str(self.workspace)}, self.redact)
        for one in wanted:
            reason = await run_hook_command(
                [str(expand(one.command[0], self.environ)), *one.command[1:]],
                json.dumps(payload).encode(),
                self.environ,
                seconds=one.timeout_ms / 1000,
                inherit=one.inherit_env,
                directory=self.workspace,
            )
            reason = reason and single_line(self.redact(reason), _REASON_CHARS)
            if reason is not None:
                logger.warning("the hook %s on %s failed: %s", one.command[0], event, reason)
                return reason
        return None


async def run_hook_command(
    command: Sequence[str],
    given: bytes,
    environ: Mapping[str, str],
    *,
    seconds: float,
    inherit: Sequence[str] = (),
    directory: Path | None = None,
) -> str | None:
    """Run a command with this input; returns why it failed, in its own words, or None."""
    marker = f"hook.{random_id()}"
    environment = child_environment(environ, {}, (*_DESKTOP, *inherit))
    output = bytearray()
    process: anyio.abc.Process | None = None

    def listen(piece: bytes) -> None:
        output.extend(piece[: _OUTPUT_BYTES - len(output)])

    try:
        # A file, because the command may not read it. Cancelling a start halfway would leave a
        # process behind.
        with TemporaryFile() as stdin, anyio.CancelScope(shield=True):
            stdin.write(given)
            stdin.seek(0)
            process = await anyio.open_process(
                command,
                stdin=stdin,
                stderr=subprocess.STDOUT,
                env={**environment, orphan_reaper.MARKER: marker},
                cwd=directory,
                start_new_session=True,
            )
    except (OSError, ValueError) as error:
        return f"it could not be started: {error}"
    assert process is not None
    try:
        with anyio.fail_after(seconds):
            code = await exit_code(process, marker, listen)
    except TimeoutError:
        return f"it did not end within {seconds:g} s"
    if code == 0:
        return None
    said = single_line(output.decode(errors="replace"), _OUTPUT_BYTES)
    return said or f"it exited with code {code} and gave no reason"


@dataclass(frozen=True, slots=True)
class HookRunner(Wrapper):
    hooks: Hooks
    refused: Refused
    clock: Clock

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        facts: dict[str, Any] = {
            "agent": context.agent,
            "session": context.session,
            "turn": context.turn,
            "server": context.spec.origin.server if context.spec is not None else None,
            "arguments": arguments,
        }
        reason = await self.hooks.fire("before_tool", name, **facts)
        if reason is not None:
            self.refused(arguments, context)
            return failed(f"The person's hook refused this call: {reason}")
        started = self.clock.monotonic()
        result = await self.source.call(name, arguments, context)
        await self.hooks.fire(
            "after_tool",
            name,
            **facts,
            isError=result.is_error,
            text=text_of(result.blocks)[:_TEXT_CHARS],
            durationMs=round((self.clock.monotonic() - started) * 1000),
        )
        return result
