"""What happens to every tool call, and in which order."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.agent.toolpath.approval import Approval, Approvals, Preview
from openclaw.agent.toolpath.audit import Audit, OnCall
from openclaw.agent.toolpath.search import DEFAULT_BOUNDS, Bounds, ToolSearch
from openclaw.agent.toolpath.toolbox import Toolbox
from openclaw.agent.toolpath.wrappers import Framing, Joined, Policed, Redaction
from openclaw.core.clock import Clock
from openclaw.core.events import RUN_CODE, WEB_SEARCH
from openclaw.core.tools import ToolSource
from openclaw.policy.decide import Outcome, Policy, decide
from openclaw.secrets.redactor import Redactor

if TYPE_CHECKING:
    from openclaw.agent.toolpath.dataflow import SessionFlow
    from openclaw.agent.toolpath.hooks import Hooks


@dataclass(frozen=True, slots=True)
class ToolPathDeps:
    """What the path needs of its host.

    `results` is where results are kept that are too long. `finder` and `approvals` are shared by
    all sessions.
    """

    redactor: Redactor
    clock: Clock
    on_call: OnCall | None = None
    results: Path | None = None
    finder: ToolSearch = field(default_factory=ToolSearch)
    approvals: Approvals = field(default_factory=Approvals)
    preview: Preview | None = None
    hooks: "Hooks | None" = None


def tool_path(
    sources: Sequence[ToolSource],
    policy: Policy,
    deps: ToolPathDeps,
    *,
    can_ask: bool = True,
    bounds: Bounds = DEFAULT_BOUNDS,
    flow: "SessionFlow | None" = None,
) -> Toolbox:
    """The tools of an agent: our own sources first, then MCP servers'.

    Without a `flow`, it is the person who calls, and nobody asks where the values came from.

    A call passes these from the last line to the first, and its result from the first to the last.
    Secrets are taken out before anything is cut, kept or marked, because half a secret, or one
    with marks in it, is no longer recognised.
    """
    redact = deps.redactor.redact
    watch = partial(Audit, on_call=deps.on_call, clock=deps.clock, redact=redact)

    def checked(source: ToolSource, flow: "SessionFlow | None" = None) -> ToolSource:
        path: ToolSource = Redaction(source, deps.redactor)
        path = Framing(path, deps.results)
        path = audit = watch(path)
        path = approval = Approval(
            path, deps.redactor.redact_known, audit.refused, deps.approvals, deps.preview
        )
        if flow is not None:
            from openclaw.agent.toolpath.dataflow import DataFlow

            path = DataFlow(path, flow, approval, audit.refused)
        if deps.hooks is not None:
            from openclaw.agent.toolpath.hooks import Hooked

            path = Hooked(path, deps.hooks, audit.refused, deps.clock)
        return Policed(path, policy, can_ask, audit.refused)

    def unchecked(source: ToolSource) -> ToolSource:
        return watch(Framing(Redaction(source, deps.redactor), deps.results))

    code = decide(policy, RUN_CODE)
    if code.outcome is Outcome.DENY or (code.asks and not can_ask):
        bounds = replace(bounds, code="off")
    may_search = decide(policy, WEB_SEARCH).outcome is Outcome.ALLOW
    return Toolbox(
        checked(Joined(sources), flow),
        bounds,
        deps.finder,
        searching=unchecked,
        scripting=checked,
        flow=flow,
        may_search=may_search,
    )
