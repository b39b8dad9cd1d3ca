"""Consent given on the command line, for scripts and for people who know what will be asked."""

import shlex
from typing import TYPE_CHECKING

from openclaw.core.tools import NO, ONCE, Answer
from openclaw.policy.decide import covers, rule_for

if TYPE_CHECKING:
    from openclaw.core.tools import Ask, PermissionRequest

_NOBODY = "nobody could be asked, because this runs without a terminal or with --no-questions"


class Consent:
    """Answers by the rules of the command line, then as the person says; without one, with no."""

    def __init__(self, rules: list[str], person: "Ask | None") -> None:
        self._rules, self._person = rules, person
        self.refused: list[str] = []

    async def permit(self, request: "PermissionRequest") -> Answer:
        covered = any(covers(rule, request.name, request.arguments) for rule in self._rules)
        if covered and not request.doubt:
            return Answer(ONCE)
        if self._person is not None:
            return await self._person(request)
        if not request.doubt:
            self.refused.append(rule_for(request.name, request.arguments) or request.name)
        return Answer(NO, _NOBODY)

    def lacking(self) -> str | None:
        """What to tell whoever ran this: what was refused, and how to allow it."""
        if not self.refused:
            return None
        rules = list(dict.fromkeys(self.refused))
        options = " ".join(f"--yes-to {shlex.quote(rule)}" for rule in rules)
        return (
            f"Needed your approval, and nobody could be asked: {', '.join(rules)}. To allow it, "
            f"add {options}, or run this in a terminal."
        )
