"""Emits events for every call, and records each MCP tool call in the audit log.

A call is recorded twice: before it is sent, as `started`, and when it has ended. So every call that
was made is in the log, even if the process was killed meanwhile.
"""

import json
import logging
import os
import sys
import threading
from asyncio import get_running_loop
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol

import anyio
import anyio.to_thread
import orjson
from anyio import to_thread

from openclaw.agent.redaction import Redact, clean_json
from openclaw.agent.toolpath.wrappers import Wrapper
from openclaw.config.paths import CLOEXEC, NOFOLLOW
from openclaw.config.paths import lock as take_lock
from openclaw.config.schema import AuditConfig
from openclaw.core.clock import Clock
from openclaw.core.content import Block, Media, text_of
from openclaw.core.errors import cause_of
from openclaw.core.events import ToolFinished, ToolStarted
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.policy.approval_text import Change, diff_lines
from openclaw.secrets.redactor import Redactor

logger = logging.getLogger(__name__)


class CallRecord(NamedTuple):
    """One call of an MCP tool. `outcome` is started, ok, error, denied, blocked or cancelled."""

    at_ms: int
    agent: str
    session: str
    call_id: str
    server: str
    tool: str
    arguments: JsonObject
    outcome: str
    duration_ms: float
    blocks: tuple[Block, ...] = ()


OnCall = Callable[[CallRecord], None]
Preview = Callable[[str, JsonObject], Change | None]  # what a call would do to a file; may block
_WRITES: Final = ("write", "edit")
_MOST_DIFF_LINES: Final = 1000


class CallLog(Protocol):
    async def begin(self, call: CallRecord) -> None:
        """Record a call that is about to be sent; when this returns, the record is on disk."""
        ...

    def record(self, call: CallRecord) -> None:
        """Record a call that has ended, or that was refused."""
        ...


@dataclass(frozen=True, slots=True)
class Audit(Wrapper):
    calls: CallLog | None
    clock: Clock
    redact: Redact
    preview: Preview | None = None

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        await self._begin(arguments, context)
        label = context.spec.label if context.spec is not None else name
        shown = clean_json(arguments, self.redact)
        diff = await to_thread.run_sync(self._diff, name, arguments) if name in _WRITES else ""
        context.emit(ToolStarted(context.call_id, name, label, shown, context.within, diff))
        started = self.clock.monotonic()
        try:
            result = await self.source.call(name, arguments, context)
        except BaseException:
            elapsed = (self.clock.monotonic() - started) * 1000
            self._record(arguments, context, "cancelled", elapsed)
            raise
        elapsed = (self.clock.monotonic() - started) * 1000
        outcome = "error" if result.is_error else "ok"
        if result.details.get("blocked"):
            outcome = "blocked"
        self._record(arguments, context, outcome, elapsed, result.outputs)
        context.emit(ToolFinished(context.call_id, name, result, elapsed))
        return result

    def _diff(self, name: str, arguments: JsonObject) -> str:
        change = self.preview(name, arguments) if self.preview is not None else None
        if change is not None:
            before, after = change.before, change.after
        else:  # a new file, or one that can't be compared
            before, after = "", str(arguments.get("content", "")) if name == "write" else ""
        lines = diff_lines(self.redact(before), self.redact(after))
        return "\n".join(islice(lines, _MOST_DIFF_LINES))

    def refused(self, arguments: JsonObject, context: CallContext) -> None:
        """Record a call that was not made."""
        self._record(arguments, context, "denied", 0.0)

    async def _begin(self, arguments: JsonObject, context: CallContext) -> None:
        """Put the call into the transcript and the audit log at once: each waits for the disk."""
        record = self._described(arguments, context, "started")
        try:
            if context.begin is None:
                if record is not None and self.calls is not None:
                    await self.calls.begin(record)
            elif record is None or self.calls is None:
                await context.begin()
            else:
                async with anyio.create_task_group() as both:
                    both.start_soon(self.calls.begin, record, name="audit")
                    await context.begin()
        except BaseException as error:
            self._record(arguments, context, "cancelled", 0.0)
            cause = cause_of(error)
            if cause is not error:
                raise cause from None
            raise

    def _record(
        self,
        arguments: JsonObject,
        context: CallContext,
        outcome: str,
        elapsed: float,
        blocks: tuple[Block, ...] = (),
    ) -> None:
        record = self._described(arguments, context, outcome, elapsed, blocks)
        if record is None:
            return
        logger.debug(
            "MCP call %s/%s: %s after %.1f ms", record.server, record.tool, outcome, elapsed
        )
        if self.calls is not None:
            self.calls.record(record)

    def _described(
        self,
        arguments: JsonObject,
        context: CallContext,
        outcome: str,
        elapsed: float = 0.0,
        blocks: tuple[Block, ...] = (),
    ) -> CallRecord | None:
        spec = context.spec
        if spec is None or spec.origin.server is None:  # only MCP tools are recorded
            return None
        return CallRecord(
            at_ms=self.clock.now_ms(),
            agent=context.agent,
            session=context.session,
            call_id=context.call_id,
            server=spec.origin.server,
            tool=spec.origin.tool or spec.name,
            arguments=arguments,
            outcome=outcome,
            duration_ms=elapsed,
            blocks=blocks,
        )


MAX_BODY: Final = 16 * 1024
MAX_NAME: Final = 512
_MOST_WAITING: Final = 1000
_MOST_AT_ONCE: Final = 64 * 1024  # bytes of one write


@dataclass(slots=True)
class AuditLog:
    """Appends records; several processes may append to the same file at once.

    The records of one step of the event loop are written right after that step, so that no call
    waits for them, and in one write in append mode, so that records never mix. Only those of calls
    that are about to be sent are waited for: calls that begin together share one write and sync. A
    full file becomes `….1`, under a lock, and the oldest file is dropped. A failed write logs one
    warning and never fails the call.
    """

    path: Path
    redactor: Redactor
    settings: AuditConfig
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _waiting: list[CallRecord] = field(default_factory=list[CallRecord])
    _ahead: list[CallRecord] = field(default_factory=list[CallRecord])  # about to be sent
    _syncing: anyio.Event | None = None
    _begun: int = 0
    _synced: int = 0
    _torn: bool = False
    _warned: bool = False
    _file: int | None = None
    _opened: os.stat_result = field(init=False)

    async def begin(self, call: CallRecord) -> None:
        with self._lock:
            self._ahead.append(call)
            self._begun += 1
            number = self._begun
        while self._synced < number:
            if self._syncing is not None:
                await self._syncing.wait()
                continue
            self._syncing = synced = anyio.Event()
            try:
                await anyio.to_thread.run_sync(self._sync)
            finally:
                self._syncing = None
                synced.set()

    def _sync(self) -> None:
        with self._lock:
            calls, self._ahead = self._ahead, []
            number = self._begun
            self._write(b"".join(map(self._line, calls)), sync=True)
            self._synced = number

    def record(self, call: CallRecord) -> None:
        with self._lock:
            self._waiting.append(call)
            waiting = len(self._waiting)
        try:
            if waiting == 1:
                get_running_loop().call_soon(self.flush)
        except RuntimeError:  # no event loop runs in this thread
            self.flush()
        if waiting >= _MOST_WAITING:
            self.flush()

    def flush(self) -> None:
        with self._lock:
            calls, self._waiting = self._waiting, []
            data = b""
            for line in map(self._line, calls):
                if data and len(data) + len(line) > min(self.settings.max_bytes, _MOST_AT_ONCE):
                    self._write(data)
                    data = b""
                data += line
            if data:
                self._write(data)

    def _line(self, call: CallRecord) -> bytes:
        now_ms, redact = call.at_ms, self.redactor.redact
        arguments, result = _dumped(call.arguments), text_of(call.blocks)
        media = sum([len(one.data or b"") for one in call.blocks if isinstance(one, Media)])
        fields: dict[str, Any] = {
            "time": f"{_second(now_ms // 1000)}.{now_ms % 1000:03d}Z",
            "timeMs": now_ms,
            "agent": redact(call.agent[:MAX_NAME]),
            "session": redact(call.session[:MAX_NAME]),
            "call": redact(call.call_id[:MAX_NAME]),
            "server": redact(call.server[:MAX_NAME]),
            "tool": redact(call.tool[:MAX_NAME]),
            "outcome": call.outcome,
            "argumentBytes": len(arguments),
        }
        if self.settings.bodies:
            fields["arguments"] = self._body(arguments.decode())
        if call.outcome == "started":
            return _line(fields)
        fields |= {
            "durationMs": round(call.duration_ms, 3),
            "resultBytes": _size(result) + media,
        }
        if self.settings.bodies:
            fields["result"] = self._body(result)
        return _line(fields)

    def _body(self, text: str) -> str:
        # Redacted before it is cut: half a secret would not be recognised.
        redacted = self.redactor.redact(text[: 4 * MAX_BODY])
        return redacted if len(redacted) <= MAX_BODY else redacted[:MAX_BODY] + "…"

    def _write(self, data: bytes, *, sync: bool = False) -> None:
        try:
            # If inode numbers are not stable, rotation never seems to help: the third time, write anyway.
            if not self._append(data, sync=sync) and not self._append(data, sync=sync):
                self._append(data, anyway=True, sync=sync)
        except OSError as error:
            self._close()  # the next record opens the file again
            if not self._warned:
                self._warned = True
                logger.warning("the audit log %s cannot be written: %s", self.path, error.strerror)
        else:
            self._warned = False

    def _append(self, data: bytes, *, anyway: bool = False, sync: bool = False) -> bool:
        """Append to the file; False if it was full and has been rotated instead."""
        file, size = self._current()
        try:
            if not anyway and size and size + len(data) > self.settings.max_bytes:
                self._rotate(file)
                return False
            data = b"\n" + data if self._torn else data
            self._torn = os.write(file, data) != len(data)
            if sync:
                _write_to_disk(file)
            return True
        finally:
            if sys.platform == "win32":  # nobody can rename an open file there
                self._close()

    def _current(self) -> tuple[int, int]:
        """The file that is at the path now, and its size. It stays open for the next record."""
        if self._file is not None:
            with suppress(FileNotFoundError):
                now, opened = os.lstat(str(self.path)), self._opened
                if os.path.samestat(now, opened) and now.st_mode == opened.st_mode:
                    return self._file, now.st_size
            self._close()
        flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | CLOEXEC | NOFOLLOW
        try:
            file = os.open(self.path, flags, 0o600)
        except FileNotFoundError:
            self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            file = os.open(self.path, flags, 0o600)
        self._file = file
        if sys.platform != "win32":
            os.fchmod(file, 0o600)
        self._opened = os.fstat(file)
        return file, self._opened.st_size

    def close(self) -> None:
        self.flush()
        self._close()

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            with suppress(OSError):
                os.close(file)

    def _rotate(self, file: int) -> None:
        lock = os.open(self._numbered("lock"), os.O_WRONLY | os.O_CREAT | CLOEXEC | NOFOLLOW, 0o600)
        try:
            take_lock(lock)
            with suppress(FileNotFoundError):
                if not os.path.samestat(self.path.stat(), os.fstat(file)):
                    return  # another process was first
                for number in range(self.settings.keep - 1, 0, -1):
                    with suppress(FileNotFoundError):
                        self._numbered(number).replace(self._numbered(number + 1))
                if self.settings.keep > 0:
                    self.path.replace(self._numbered(1))
                else:
                    self.path.unlink()
        finally:
            os.close(lock)

    def _numbered(self, suffix: int | str) -> Path:
        return self.path.with_name(f"{self.path.name}.{suffix}")


# macOS has no fdatasync.
_write_to_disk: Callable[[int], None] = getattr(os, "fdatasync", os.fsync)


@lru_cache(maxsize=2)
def _second(seconds: int) -> str:
    return datetime.fromtimestamp(seconds, tz=UTC).strftime("%Y-%m-%dT%H:%M:%S")


def _line(fields: dict[str, Any]) -> bytes:
    """A record in ASCII: a server's words must not break the line or control a terminal."""
    line = _dumped(fields)
    return (line if line.isascii() else json.dumps(fields, separators=(",", ":")).encode()) + b"\n"


def _size(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode(errors="surrogatepass"))


def _dumped(value: Any) -> bytes:
    try:
        return orjson.dumps(value, default=str)
    except TypeError:  # half a character, or a number beyond 64 bits
        return json.dumps(value, default=str).encode()
