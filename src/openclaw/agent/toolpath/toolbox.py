"""The tools of one turn: which exist, which the model sees, and the path of each call."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import islice
from types import CoroutineType
from typing import TYPE_CHECKING, Any

import anyio.to_thread

from openclaw.agent.budget import ToolSizes
from openclaw.agent.toolpath import search
from openclaw.agent.toolpath.approval import Approval, Approvals, Directory
from openclaw.agent.toolpath.audit import Audit, CallLog, Preview
from openclaw.agent.toolpath.dataflow import DataFlow
from openclaw.agent.toolpath.hooks import HookRunner
from openclaw.agent.toolpath.run_code import code_tool
from openclaw.agent.toolpath.script_functions import CODE_SPEC
from openclaw.agent.toolpath.search import ToolListLimits, ToolSearch
from openclaw.agent.toolpath.wrappers import Framing, MergedSources, PolicyFilter, Redaction
from openclaw.agent.tools.base import Arguments, FunctionTool, NativeTools
from openclaw.agent.transcript import Item, ResultItem, UserItem
from openclaw.core.clock import Clock
from openclaw.core.content import Text
from openclaw.core.errors import ToolFailure
from openclaw.core.events import RUN_CODE, WEB_SEARCH
from openclaw.core.file_names import OwnDirectory
from openclaw.core.tools import CallContext, JsonObject, ToolResult, ToolSource, ToolSpec
from openclaw.policy.decide import Policy, PolicyOutcome, decide
from openclaw.secrets.redactor import Redactor

if TYPE_CHECKING:
    from openclaw.agent.toolpath.dataflow import SessionFlow
    from openclaw.agent.toolpath.hooks import Hooks
    from openclaw.policy.dataflow.answers import AnswerStream


_LONG_ANSWER = 20_000  # characters; a longer one is filtered in a thread


@dataclass(slots=True)
class Toolbox:
    """The tools of a tool path, read again at every step, and the search among them.

    The model's list of tools only grows at its end, so that providers' caches stay valid: it depends
    on the tools, on the conversation's first message, and on what was searched for and used since.
    `searching` and `scripting` are the paths of the two tools that the toolbox adds: the search,
    which only lists tools and so needs no rules, and scripts, whose own calls take `path`.
    """

    path: ToolSource
    bounds: ToolListLimits = field(default_factory=ToolListLimits)
    finder: ToolSearch = field(default_factory=ToolSearch)
    searching: Callable[[ToolSource], ToolSource] = lambda source: source
    scripting: Callable[[ToolSource], ToolSource] = lambda source: source
    sizes: ToolSizes = field(default_factory=ToolSizes)
    flow: "SessionFlow | None" = None
    may_search: bool = True  # whether a provider may search the web by itself, without approval
    deferred: Sequence[ToolSpec] = ()  # not in the last list: the provider searches and loads them
    _opening: str | None = None
    _used: dict[str, int] = field(default_factory=dict[str, int])  # when: the latest is highest
    _uses: int = 0
    _tools: dict[str, ToolSpec] = field(default_factory=dict[str, ToolSpec])
    _first: tuple[int, Sequence[ToolSpec], tuple[ToolSpec, ...]] = (-1, (), ())
    _before: int | None = None

    def specs(self) -> Sequence[ToolSpec]:
        return self.path.specs()

    def call(
        self, name: str, arguments: JsonObject, context: CallContext
    ) -> "CoroutineType[Any, Any, ToolResult]":
        spec = self._own(name)
        if spec is None or context.within:
            return self.path.call(name, arguments, context)
        path = self.searching(NativeTools([FunctionTool(spec, self._search)]))
        if name == RUN_CODE:
            path = self.scripting(NativeTools([code_tool(self.path.specs)]))
        return path.call(name, arguments, context._replace(spec=spec))

    def answers(self) -> "AnswerStream | None":
        """A filter that disarms images and links in an answer that only untrusted content named."""
        return self.flow.answers() if self.flow is not None else None

    def disarm_links(self, text: str) -> str:
        stream = self.answers()
        return text if stream is None else stream.whole(text)

    async def disarm_answer(self, text: str) -> str:
        """Like `disarm_links`, but long answers hold up no other turn."""
        if len(text) > _LONG_ANSWER:
            return await anyio.to_thread.run_sync(self.disarm_links, text)
        return self.disarm_links(text)

    def index_items(self, items: Iterable[Item]) -> None:
        """Take note of a conversation's first message and of the tools found and used.

        Recalling it whole gives the same list of tools as recalling it bit by bit.
        """
        items = list(items)
        if self.flow is not None:
            self.flow.index_items(items)
        for item in items:
            if isinstance(item, UserItem) and self._opening is None:
                self._opening = item.text
            elif isinstance(item, ResultItem):
                self._use(item.name)
                found = search.names_in(item.text) if item.name == search.SEARCH_TOOL else []
                for name in found:
                    self._used.setdefault(name, 0)
                for name in reversed(found):  # so that the best match is the last to go
                    self._use(name)

    async def shown(
        self, window: int, *, everything: bool = False, deferring: bool = False
    ) -> list[ToolSpec]:
        """The tools in the model's list: all of them, or what fits and the search for the rest.

        `window` is the size of its context. `everything` is for models to which tools cost nothing.
        With `deferring` the provider searches: what it finds in this turn stays `deferred`.
        """
        self.deferred = ()
        self._tools = {spec.name: spec for spec in self.path.specs()}
        specs = list(self._tools.values())
        tokens = self.bounds.tokens(window)
        ours = self.sizes.total([spec for spec in specs if spec.origin.server is None])
        beside = min(ours, int(window * search.OWN_SHARE))
        few = self.bounds.most is None or len(specs) <= self.bounds.most
        room = min(tokens, search.MOST_WHOLE) + beside
        if everything or (few and self.sizes.total(specs) <= room):
            return [*specs, CODE_SPEC] if self.bounds.code == "on" and not everything else specs
        first = await self._at_first(specs, min(tokens, search.MOST_AT_FIRST))
        deferring = deferring and self.sizes.total(specs) <= search.MOST_DEFERRED
        if deferring and self._before is None:
            self._before = len(self._used)
        shown = [*first, *self._added_since(first, tokens, self._before if deferring else None)]
        if deferring:
            seen = {spec.name for spec in shown}
            self.deferred = [spec for spec in specs if spec.name not in seen]
        return shown

    async def _at_first(self, specs: Sequence[ToolSpec], tokens: int) -> tuple[ToolSpec, ...]:
        before, known, shown = self._first
        same = len(known) == len(specs) and all(a is b for a, b in zip(known, specs, strict=True))
        if before == tokens and same:
            return shown
        near = await self.finder.nearest(specs, self._opening or "", search.NEAREST)
        lines = search.lines_room(specs, tokens)
        code = () if self.bounds.code == "off" else (CODE_SPEC,)
        room = tokens - lines - self.sizes.of(search.search_spec()) - self.sizes.total(code)
        most = None if self.bounds.most is None else self.bounds.most - 1
        chosen = search.choose_shown(specs, near, room, most, self.sizes)
        shown = (*chosen, search.search_spec(search.server_lines(specs, chosen, lines)), *code)
        self._first = tokens, specs, shown
        return shown

    def _added_since(
        self, first: Iterable[ToolSpec], tokens: int, before: int | None
    ) -> list[ToolSpec]:
        """Tools found and used since, in that order; only the latest if there are too many."""
        shown = {spec.name for spec in first}
        kept: set[str] = set()
        for name in sorted(self._used, key=self._used.__getitem__, reverse=True):
            if name in self._tools and name not in shown:
                tokens -= self.sizes.of(self._tools[name])
                if tokens < 0 and kept:
                    break
                kept.add(name)
        return [self._tools[name] for name in islice(self._used, before) if name in kept]

    def find(self, name: str) -> ToolSpec | None:
        return self._tools.get(name) or self._own(name)

    def _own(self, name: str) -> ToolSpec | None:
        if name in self._tools:
            return None
        if name == RUN_CODE and self.bounds.code != "off":
            return CODE_SPEC
        return search.search_spec() if name == search.SEARCH_TOOL else None

    def _use(self, name: str) -> None:
        self._uses += 1
        self._used[name] = self._uses

    async def _search(self, arguments: Arguments, context: CallContext) -> ToolResult:
        """Tools that fit each need; they are shown once the answer is recalled."""
        needs, limit = search.needs_of(arguments.all)
        if not needs:
            raise ToolFailure("Say in `query` what the tool should do.")
        specs = list(self._tools.values()) or self.path.specs()
        found = await self.finder.find(specs, needs, limit)
        if not any(one.specs for one in found):
            raise ToolFailure("No tool fits. Try other words.")
        return ToolResult(blocks=(Text(search.answer(found)),))


@dataclass(frozen=True, slots=True)
class ToolPathDeps:
    redactor: Redactor
    clock: Clock
    calls: CallLog | None = None
    results: OwnDirectory | None = None  # where the full text of long results is stored
    finder: ToolSearch = field(default_factory=ToolSearch)  # shared by all sessions
    approvals: Approvals = field(default_factory=Approvals)  # shared by all sessions
    preview: Preview | None = None
    directory: Directory | None = None
    hooks: "Hooks | None" = None


def audited(source: ToolSource, deps: ToolPathDeps) -> Audit:
    return Audit(
        source,
        calls=deps.calls,
        clock=deps.clock,
        redact=deps.redactor.redact,
        preview=deps.preview,
    )


def permitted(
    source: ToolSource, policy: Policy, deps: ToolPathDeps, flow: "SessionFlow | None" = None
) -> ToolSource:
    """The source, but only for calls that policy, hooks, data flow and the user allow."""
    audit = audited(source, deps)
    path: ToolSource
    path = approval = Approval(
        audit,
        deps.redactor.redact_known,
        audit.refused,
        deps.approvals,
        deps.preview,
        deps.directory,
    )
    if flow is not None:
        path = DataFlow(path, flow, approval)
    if deps.hooks is not None:
        path = HookRunner(path, deps.hooks, audit.refused, deps.clock)
    return PolicyFilter(path, policy, audit.refused)


def tool_path(
    sources: Sequence[ToolSource],
    policy: Policy,
    deps: ToolPathDeps,
    *,
    bounds: ToolListLimits = search.DEFAULT_BOUNDS,
    flow: "SessionFlow | None" = None,
) -> Toolbox:
    """The tools of an agent: our own sources first, then MCP servers'.

    Without a `flow`, the person is the caller, and the origin of values is not checked.

    A call passes these wrappers from the last to the first, and its result from the first to the
    last. Secrets are removed before anything is cut, stored or marked, because half a secret, or
    one with marks in it, would not be recognised.
    """

    def framed(source: ToolSource) -> ToolSource:
        return Framing(Redaction(source, deps.redactor), deps.results)

    def checked(source: ToolSource, flow: "SessionFlow | None" = None) -> ToolSource:
        return permitted(framed(source), policy, deps, flow)

    def unchecked(source: ToolSource) -> ToolSource:
        return audited(framed(source), deps)

    if decide(policy, RUN_CODE).outcome is PolicyOutcome.DENY:
        bounds = replace(bounds, code="off")
    may_search = decide(policy, WEB_SEARCH).outcome is PolicyOutcome.ALLOW
    return Toolbox(
        checked(MergedSources(sources), flow),
        bounds,
        deps.finder,
        searching=unchecked,
        scripting=checked,
        flow=flow,
        may_search=may_search,
    )
