"""The small wrappers of the tool path (redaction, framing, policy), and the merged tool sources."""

import difflib
import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from operator import is_
from types import CoroutineType
from typing import Any

import anyio.to_thread

from openclaw.agent.redaction import clean_result
from openclaw.content.detection import Detection, detect
from openclaw.content.frame import MCP_SERVER, frame_result
from openclaw.core.content import Media, Text, text_of
from openclaw.core.errors import ModelFacing
from openclaw.core.events import SuspiciousContent
from openclaw.core.file_names import OwnDirectory
from openclaw.core.tools import (
    CallContext,
    JsonObject,
    ToolResult,
    ToolSource,
    ToolSpec,
    Untrusted,
    failed,
    ignore_progress,
)
from openclaw.mcp_client.bridge.results import keep
from openclaw.policy.decide import Decision, Policy, PolicyOutcome, covers, decide
from openclaw.secrets.redactor import Redactor

logger = logging.getLogger(__name__)

Refused = Callable[[JsonObject, CallContext], None]  # records a call that was not made
LARGE = 250_000  # characters or bytes; a larger result is processed in a thread
_WITHHELD = "[This was withheld: it looks like an attempt to give you orders.]"


@dataclass(frozen=True, slots=True)
class Wrapper:
    source: ToolSource

    def specs(self) -> Sequence[ToolSpec]:
        return self.source.specs()


@dataclass(slots=True)
class MergedSources:
    """Several sources as one. The first to use a name gets it; exceptions become results."""

    sources: Sequence[ToolSource]
    _offered: Sequence[Sequence[ToolSpec]] = ()
    _specs: tuple[ToolSpec, ...] = ()
    _owners: dict[str, ToolSource] = field(default_factory=dict[str, ToolSource])

    def specs(self) -> Sequence[ToolSpec]:
        offered = [source.specs() for source in self.sources]
        if self._offered and all(map(is_, offered, self._offered)):
            return self._specs
        found: dict[str, ToolSpec] = {}
        self._owners = {}
        for source, specs in zip(self.sources, offered, strict=True):
            for spec in specs:
                if spec.name in found:
                    logger.warning("two tools have one name", extra={"tool": spec.name})
                    continue
                found[spec.name] = spec
                self._owners[spec.name] = source
        self._offered, self._specs = offered, tuple(found.values())
        return self._specs

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        if name not in self._owners:  # otherwise its source says so if it is gone
            self.specs()
        source = self._owners.get(name)
        if source is None:
            return failed(f"There is no tool {name}.")
        try:
            return await source.call(name, arguments, context)
        except ModelFacing as error:
            return failed(error.message)
        except Exception as error:
            logger.exception("a tool raised", extra={"tool": name})
            return failed(f"The tool {name} failed: {type(error).__name__}: {error}")


@dataclass(frozen=True, slots=True)
class Redaction(Wrapper):
    """Removes secrets from results and progress messages, whoever they are for."""

    redactor: Redactor

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        if (report := context.progress) is not ignore_progress:

            def progress(message: str) -> None:
                report(self.redactor.redact(message))

            context = context._replace(progress=progress)
        result = await self.source.call(name, arguments, context)
        if is_large(result):
            return await anyio.to_thread.run_sync(clean_result, result, self.redactor)
        return clean_result(result, self.redactor)


def is_large(result: ToolResult) -> bool:
    """Whether processing it takes long enough to hold up other tasks."""
    size = 0
    for block in result.blocks + result.outputs:
        if isinstance(block, Text):
            size += len(block.text)
        elif isinstance(block, Media):
            size += LARGE + 1 if block.path is not None else len(block.data or b"")
    return size > LARGE


@dataclass(frozen=True, slots=True)
class Framing(Wrapper):
    """Cuts, scans and frames untrusted results; the full text of a cut one is stored in `results`.

    A script gets results unframed, because its own output is framed.
    """

    results: OwnDirectory | None

    async def call(self, name: str, arguments: JsonObject, context: CallContext) -> ToolResult:
        result = await self.source.call(name, arguments, context)
        whose = result.untrusted
        if whose is None:
            return result
        if is_large(result):
            framed, seen = await anyio.to_thread.run_sync(self._framed, result, whose, context)
        else:
            framed, seen = self._framed(result, whose, context)
        if seen is not None and seen.suspicious:
            _warn(whose, seen, context)
        return framed

    def _framed(
        self, result: ToolResult, whose: Untrusted, context: CallContext
    ) -> tuple[ToolResult, Detection | None]:
        for_model, seen = not context.within, None
        if for_model and whose.limit is not None:
            result = _cut(result, whose, whose.limit, self.results, context)
        if whose.source == MCP_SERVER:
            seen = detect(text_of(result.blocks))
            if seen.suspicious:
                result = replace(result, details={**result.details, "signals": list(seen.signals)})
                if whose.guarded:
                    details = {**result.details, "blocked": True}
                    return ToolResult((Text(_WITHHELD),), is_error=True, details=details), seen
        return (frame_result(result) if for_model else result), seen


def _cut(
    result: ToolResult,
    whose: Untrusted,
    limit: int,
    results: OwnDirectory | None,
    context: CallContext,
) -> ToolResult:
    words = text_of(result.blocks)
    if len(words) <= limit:
        return result
    path = keep(words, whose, results, context.agent, context.session)
    whole = f" The full text is in {path}; open it with `read`." if path is not None else ""
    note = f"(The result was cut: {limit} of {len(words)} characters are shown.{whole})"
    details = {**result.details, "truncated": True, "characters": len(words)}
    outputs = (
        replace(block, text=block.text[:limit]) if isinstance(block, Text) else block
        for block in result.outputs
    )
    return replace(
        result,
        blocks=(Text(words[:limit]), *(b for b in result.blocks if not isinstance(b, Text))),
        outputs=tuple(outputs),
        details=details | ({"path": str(path)} if path is not None else {}),
        structured=None,
        untrusted=replace(whose, note=note),
    )


def _warn(whose: Untrusted, seen: Detection, context: CallContext) -> None:
    tool = context.spec.origin.tool if context.spec is not None else None
    what = f"tool '{tool}': the result" if tool else "a stored result"
    logger.warning(
        "MCP server '%s' %s looks like an attempt to give the agent orders",
        whose.sender,
        what,
        extra={"server": whose.sender, "tool": tool, "signals": seen.signals},
    )
    context.emit(SuspiciousContent(whose.sender, tool, seen.score, tuple(seen.signals)))


async def _not_made(why: str) -> ToolResult:
    return failed(why)


@dataclass(slots=True)
class PolicyFilter:
    """Offers and calls what the policy allows or leaves to the user."""

    source: ToolSource
    policy: Policy
    refused: Refused
    _seen: Sequence[ToolSpec] | None = None
    _decided: dict[str, tuple[ToolSpec, Decision]] = field(
        default_factory=dict[str, tuple[ToolSpec, Decision]]
    )
    _usable: tuple[ToolSpec, ...] = ()

    def specs(self) -> Sequence[ToolSpec]:
        self._look()
        return self._usable

    def call(
        self, name: str, arguments: JsonObject, context: CallContext
    ) -> "CoroutineType[Any, Any, ToolResult]":
        self._look()
        found = self._decided.get(name)
        if found is None:
            close = difflib.get_close_matches(name, [spec.name for spec in self._usable], n=3)
            guess = f" Did you mean {', '.join(close)}?" if close else ""
            return _not_made(
                f"There is no tool {name}.{guess} Use one of the tools that are listed."
            )
        spec, decision = found
        if context.earlier is not None:  # it was allowed when it was made
            return self.source.call(name, arguments, context._replace(spec=spec))
        asks = decision.asks and not self._approved(spec, arguments)
        context = context._replace(spec=spec, ask_reason=decision.reason if asks else None)
        if decision.outcome is PolicyOutcome.DENY:
            self.refused(arguments, context)
            return _not_made(
                f"The tool {name} is not allowed here ({decision.reason}). Continue without this tool."
            )
        return self.source.call(name, arguments, context)

    def _look(self) -> None:
        specs = self.source.specs()
        if specs is self._seen:
            return
        self._seen, self._decided = specs, {}
        for spec in specs:
            one = decide(self.policy, spec.name, spec.natural_name, contested=spec.contested)
            self._decided[spec.name] = spec, one
        self._usable = tuple(
            spec for spec, one in self._decided.values() if one.outcome is not PolicyOutcome.DENY
        )

    def _approved(self, spec: ToolSpec, arguments: JsonObject) -> bool:
        names = {spec.name} if spec.contested else {spec.name, spec.natural_name or spec.name}
        return any(covers(rule, name, arguments) for rule in self._rules() for name in names)

    def _rules(self) -> Iterator[str]:
        return (rule for layer in self.policy for rule in layer.approved)
