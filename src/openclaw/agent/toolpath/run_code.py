"""`run_code`: the model chains tool calls in a short Python script, which pydantic-monty runs.

monty interprets a subset of Python in a child process that has no files, network or environment.
Every tool call leaves the script through `Call`, which is the whole tool path.

Only strings cross this boundary: the prelude turns values into text inside the sandbox, where its limits hold.
Converting a script's objects here would be unsafe: 40,000 namedtuples of different classes hold the
interpreter lock for six seconds.
"""

import io
import json
import os
import re
import secrets
import signal
import sys
import tokenize
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any

import anyio
import pydantic_monty as monty
from anyio import to_thread
from anyio.abc import TaskGroup

from openclaw.agent.toolpath.script_functions import CODE_SPEC, ToolFunction, tool_functions
from openclaw.agent.tools.base import Arguments, FunctionTool
from openclaw.content.frame import MCP_SERVER
from openclaw.core.content import Text
from openclaw.core.errors import ToolFailure
from openclaw.core.events import RUN_CODE
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSpec, Untrusted

# Makes one call through the tool path: policy, approval, audit and limits. Never raises.
Call = Callable[[str, JsonObject], Awaitable[ToolResult]]

_PRINTED_BYTES = 1_000_000  # a script that prints more is stopped; the model sees far less
_MESSAGE_CHARS = 2_000
_SOURCE_LINE_CHARS = 120
_CLOSE_SECONDS = 5
_KILL = signal.SIGTERM if sys.platform == "win32" else signal.SIGKILL
_ADDRESS_SPACE = 512 << 20  # beyond the script's own memory; the worker's binary takes 120 MB
_PRELUDE_FILE = "<python-input-0>"  # monty's name for the first thing that a session runs

_LAYOUT = frozenset(
    [tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENDMARKER]
)

# The functions capture what they use, so that a script that rebinds names cannot change them.
# {call} is random, so that no script can name it and pass it anything but text.
_PRELUDE = """
import json
def _make(dumps, loads, print, repr, isinstance, str):
    def tool(name):
        async def call(*args, **kwargs):
            text = await {call}(name, dumps([args, kwargs]))
            if text[:1] not in ('{{', '['):
                return text
            try:
                return loads(text)
            except ValueError:
                return text
        return call
    def show(value):
        if value is None:
            return
        if not isinstance(value, str):
            try:
                value = dumps(value, ensure_ascii=False)
            except (TypeError, ValueError):
                value = repr(value)
        print(value[:{limit}])
    return tool, show
_tool, {show} = _make(json.dumps, json.loads, print, repr, isinstance, str)
"""


@dataclass(frozen=True, slots=True)
class ScriptLimits:
    """`run_seconds` counts only while the script itself runs, not while it waits for calls."""

    source_chars: int = 20_000
    run_seconds: float = 10
    total_seconds: float = 1_800
    memory_bytes: int = 64 << 20
    calls: int = 100
    calls_at_once: int = 8
    argument_chars: int = 200_000
    result_chars: int = 4_000_000
    output_chars: int = 20_000


class ScriptRunner:
    """Runs scripts, a few at a time, each in its own process."""

    def __init__(self, limits: ScriptLimits | None = None, *, at_once: int = 8) -> None:
        self._limits = limits or ScriptLimits()
        self._slots = anyio.CapacityLimiter(at_once)
        self._threads = anyio.CapacityLimiter(at_once * 2)

    async def run(self, source: str, specs: Sequence[ToolSpec], call: Call) -> "Script":
        """Run a script. Calls are never repeated, whatever happens to the script."""
        limits = self._limits
        if len(source) > limits.source_chars:
            raise ToolFailure(f"The script is longer than {limits.source_chars} characters.")
        functions = tool_functions([spec for spec in specs if spec.name != RUN_CODE])
        script = Script(functions, call, limits)
        async with self._slots:
            with anyio.move_on_after(limits.total_seconds) as scope:
                async with _worker(limits, self._threads) as worker:
                    await script.run(worker, source)
        late = f"The script was stopped after {limits.total_seconds:g} seconds."
        script.finish(late if scope.cancelled_caught else None)
        return script


_RUNNER = ScriptRunner()


def code_tool(tools: Callable[[], Sequence[ToolSpec]]) -> FunctionTool:
    async def run(arguments: Arguments, context: CallContext) -> ToolResult:
        assert context.call is not None
        outcome = await _RUNNER.run(arguments.text("code"), tools(), context.call)
        return ToolResult(
            (Text(outcome.text()),),
            is_error=outcome.error is not None,
            details={"calls": outcome.calls},
            untrusted=outcome.whose(),
        )

    return FunctionTool(CODE_SPEC, run)


@dataclass(frozen=True, slots=True)
class _Worker:
    session: monty.MontySession
    pid: int
    threads: anyio.CapacityLimiter

    async def step(self, work: Callable[[], monty.SyncSnapshot]) -> monty.SyncSnapshot:
        """Run the script, in a thread, until it waits for an answer. Cancelling kills it."""
        try:
            return await to_thread.run_sync(work, abandon_on_cancel=True, limiter=self.threads)
        except anyio.get_cancelled_exc_class():
            with suppress(ProcessLookupError):
                os.kill(self.pid, _KILL)
            raise


@asynccontextmanager
async def _worker(limits: ScriptLimits, threads: anyio.CapacityLimiter) -> AsyncGenerator[_Worker]:
    # monty's own async API can abort the interpreter if the process exits just after a script.
    stack, session, pid = await to_thread.run_sync(_open, limits, limiter=threads)
    try:
        yield _Worker(session, pid, threads)
    finally:
        with anyio.move_on_after(_CLOSE_SECONDS, shield=True):
            await to_thread.run_sync(stack.close, abandon_on_cancel=True, limiter=threads)


def _open(limits: ScriptLimits) -> tuple[ExitStack, monty.MontySession, int]:
    with ExitStack() as opening:
        pool = opening.enter_context(monty.Monty(min_processes=0, max_processes=1))
        session = opening.enter_context(
            pool.checkout(
                limits={
                    "max_feed_duration_secs": limits.run_seconds,
                    "max_memory": limits.memory_bytes,
                    # A call takes two suspensions; looking up a name that is not there, one.
                    "max_suspensions": 3 * limits.calls + 100,
                },
                os_policy={"sleep": "zero"},
            )
        )
        pid = session.worker_pid
        assert pid is not None  # nothing runs in it yet
        if sys.platform == "linux":  # limits from outside too, in case monty's accounting is wrong
            import resource

            space = limits.memory_bytes + _ADDRESS_SPACE
            seconds = int(limits.run_seconds) + _CLOSE_SECONDS
            resource.prlimit(pid, resource.RLIMIT_AS, (space, space))
            resource.prlimit(pid, resource.RLIMIT_CPU, (seconds, seconds))
            resource.prlimit(pid, resource.RLIMIT_CORE, (0, 0))
        return opening.pop_all(), session, pid


class Script:
    """A script and its result. `output` and `error` may quote `sources`, which are untrusted."""

    def __init__(
        self, functions: Mapping[str, ToolFunction], call: Call, limits: ScriptLimits
    ) -> None:
        self.output = ""
        self.error: str | None = None
        self.calls: list[dict[str, Any]] = []  # each `tool`, and `ok`: None while it is unknown
        self.sources: set[Untrusted] = set()
        self._functions = functions
        self._call = call
        self._limits = limits
        self._printed = monty.CollectString(max_bytes=_PRINTED_BYTES)
        self._used: set[str] = set()
        self._accepted = 0
        self._requests: dict[int, tuple[ToolSpec, JsonObject]] = {}
        self._settled: dict[int, monty.ExternalSettledResult] = {}
        self._news = anyio.Event()
        self._at_once = anyio.Semaphore(limits.calls_at_once)
        self._over = False
        # Two names, because a script can see the second among its own variables.
        self._call_name, self._show_name = (f"_{secrets.token_hex(16)}" for _ in range(2))

    def text(self) -> str:
        endings = {True: "", False: " failed", None: " (unknown whether it happened)"}
        counts = Counter(one["tool"] + endings[one["ok"]] for one in self.calls)
        names = [f"{name} ×{n}" if n > 1 else name for name, n in counts.items()]  # noqa: RUF001
        made = f"Calls made: {', '.join(names) or 'none'}."
        if self.error is not None:
            return "\n".join(filter(None, [self.output, self.error, made]))
        return self.output or f"The script printed nothing. {made}"

    def whose(self) -> Untrusted | None:
        """Whose words the output may contain, treated as strictly as the strictest of them."""
        if not self.sources:
            return None
        named = sorted({(one.sender, one.source) for one in self.sources})
        return Untrusted(
            source=named[0][1] if len(named) == 1 else MCP_SERVER,
            sender=", ".join(sender for sender, _ in named),
            mode="datamark" if any(one.mode == "datamark" for one in self.sources) else "frame",
            guarded=any(one.guarded for one in self.sources),
        )

    async def run(self, worker: _Worker, source: str) -> None:
        async with anyio.create_task_group() as calls:
            try:
                await self._drive(worker, source, calls)
            except monty.MontyError as error:
                self.error = _explain(error, source)
            # Calls in flight are awaited, so that their outcome is known; no new ones start.
            self._over = True

    def finish(self, error: str | None) -> None:
        self.error, limit = error or self.error, self._limits.output_chars
        self.output = self._printed.output.rstrip("\n")
        if len(self.output) > limit:
            self.output = f"{self.output[:limit]}\n[cut after {limit} characters]"
        if self._used and not self.calls and self.error is None:
            self.output += "\n(No call was made: a call needs `await`.)"

    async def _drive(self, worker: _Worker, source: str, calls: TaskGroup) -> None:
        start, printed = worker.session.feed_start, self._printed
        self._used = self._functions.keys() & set(re.findall(r"\w+", source))
        prelude = _PRELUDE.format(
            call=self._call_name, show=self._show_name, limit=self._limits.output_chars + 1
        )
        bindings = "".join(f"{name} = _tool('{name}')\n" for name in sorted(self._used))
        await worker.step(partial(start, f"{prelude}{bindings}_make = _tool = None\n"))
        try:
            snapshot = await worker.step(
                lambda: start(_showing(source, self._show_name), print_callback=printed)
            )
        except monty.MontySyntaxError:
            # No call was made, or the script would have paused. Perhaps nothing ran at all,
            # because its last line is not an expression.
            if printed.output:
                raise
            snapshot = await worker.step(partial(start, source, print_callback=printed))
        while not isinstance(snapshot, monty.MontyComplete):
            snapshot = await worker.step(await self._answer(snapshot, calls))

    async def _answer(
        self, snapshot: monty.SyncSnapshot, calls: TaskGroup
    ) -> Callable[[], monty.SyncSnapshot]:
        if isinstance(snapshot, monty.FutureSnapshot):
            return partial(snapshot.resume, await self._results(snapshot.pending_call_ids, calls))
        if isinstance(snapshot, monty.NameLookupSnapshot):
            return snapshot.resume  # unknown: monty raises NameError
        assert isinstance(snapshot, monty.FunctionSnapshot)
        if snapshot.is_os_function:
            return snapshot.resume_not_handled
        return partial(snapshot.resume, self._accept(snapshot))

    def _accept(self, snapshot: monty.FunctionSnapshot) -> monty.ExternalResult:
        if snapshot.function_name != self._call_name:
            name = snapshot.function_name[:_SOURCE_LINE_CHARS]
            return _raised("NameError", f"name '{name}' is not defined")
        if self._accepted >= self._limits.calls:
            return _raised("RuntimeError", f"a script may make at most {self._limits.calls} calls")
        name, text = snapshot.args  # from the prelude: a tool's name and JSON
        function, most = self._functions[name], self._limits.argument_chars
        if len(text) > most:
            return _raised("ValueError", f"arguments are longer than {most} characters as JSON")
        try:
            args, kwargs = json.loads(text)
            bound = function.bind(args, kwargs)
            # What JSON or UTF-8 cannot carry stops here, not halfway down the tool path.
            json.dumps(bound, ensure_ascii=False, allow_nan=False).encode()
        except (ValueError, TypeError, AttributeError, RecursionError) as error:
            message = str(error)[:_MESSAGE_CHARS]
            return _raised("TypeError", f"{message}. It is {function.signature()[:_MESSAGE_CHARS]}")
        self._accepted += 1
        self._requests[snapshot.call_id] = function.spec, bound
        return {"future": ...}

    async def _results(
        self, pending: Sequence[int], calls: TaskGroup
    ) -> dict[int, monty.ExternalSettledResult]:
        """Start the pending calls, and wait until at least one has its result."""
        for number in sorted(self._requests.keys() & set(pending)):
            spec, arguments = self._requests.pop(number)
            calls.start_soon(self._make, number, spec, arguments, name=f"call {spec.name}")
        while not self._settled:
            await self._news.wait()
        self._news = anyio.Event()
        settled, self._settled = self._settled, {}
        return settled

    async def _make(self, number: int, spec: ToolSpec, arguments: JsonObject) -> None:
        async with self._at_once:
            if self._over:
                return
            made: dict[str, Any] = {"tool": spec.name, "ok": None}
            self.calls.append(made)
            result = await self._call(spec.name, arguments)
        made["ok"] = not result.is_error
        if result.untrusted is not None:
            self.sources.add(result.untrusted)
        self._settled[number] = self._settle(result)
        self._news.set()

    def _settle(self, result: ToolResult) -> monty.ExternalSettledResult:
        text = "\n".join(
            block.text
            if isinstance(block, Text)
            else f"[{block.mime_type or 'resource'}: a script cannot read it]"
            for block in result.blocks
        )
        if result.is_error:
            return _raised("RuntimeError", text[:_MESSAGE_CHARS])
        if len(text) > self._limits.result_chars:
            message = f"the result has {len(text)} characters, more than a script can take"
            return _raised("ValueError", message)
        return {"return_value": text}


def _raised(kind: monty.ExcType, message: str) -> monty.ExternalSettledResult:
    return {"exc_type": kind, "message": message}


def _explain(error: monty.MontyError, source: str) -> str:
    if not isinstance(error, monty.MontyRuntimeError | monty.MontySyntaxError):
        return f"The script was stopped: {str(error)[:_MESSAGE_CHARS]}"
    message = error.display("type-msg")[:_MESSAGE_CHARS]
    numbers = [frame.line for frame in error.traceback() if frame.filename != _PRELUDE_FILE]
    lines = source.splitlines()
    if not numbers or numbers[-1] > len(lines):
        return message
    line = lines[numbers[-1] - 1].strip()[:_SOURCE_LINE_CHARS]
    return f"{message}\n  line {numbers[-1]}: {line}"


def _showing(source: str, show: str) -> str:
    """The script with its last top-level statement shown, on the guess that it is an expression.

    A wrong guess is a syntax error, which monty reports before anything runs.
    """
    last, fresh = None, True
    try:
        for token in tokenize.generate_tokens(io.StringIO(source, newline="\n").readline):
            if token.type == tokenize.NEWLINE:
                fresh = True
            elif fresh and token.type not in _LAYOUT:
                fresh = False
                last = last if token.start[1] else token.start[0] - 1
    except (tokenize.TokenError, SyntaxError):
        return source
    if last is None:
        return source
    lines = source.split("\n")
    keyword, expression = "", "\n".join(lines[last:])
    if expression.startswith("return "):
        keyword, expression = "return ", expression.removeprefix("return ")
    return "\n".join([*lines[:last], f"{keyword}{show}(({expression}\n))"])
