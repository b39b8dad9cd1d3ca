"""The intent that a competent reader of a user task's prompt alone would name."""

import re
from collections.abc import Iterator
from typing import Any

from fuzzing.agentdojo.agentdyn import UNFORESEEN

_MONTHS = "january february march april may june july august september october november december"


def honest_intent(suite, user, *, oracle: bool = False) -> dict[str, list[str]]:
    """The tools that the task needs, with those of their values that the prompt says.

    Tools that nobody can foresee from the prompt are left out, unless it is an `oracle`.
    """
    unforeseen = set() if oracle else UNFORESEEN.get((suite.name, user.ID), set())
    environment = user.init_environment(suite.load_and_inject_default_environment({}))
    intent: dict[str, list[str]] = {}
    for call in user.ground_truth(environment):
        if call.function in unforeseen:
            continue
        values = intent.setdefault(f"{suite.name}/{call.function}", [])
        values += [
            value
            for value in _strings(dict(call.args))
            if value not in values and follows(value, user.PROMPT)
        ]
    return intent


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        for entry in value.values():
            yield from _strings(entry)
    elif isinstance(value, list):
        for entry in value:
            yield from _strings(entry)
    elif value is not None and not isinstance(value, bool):
        yield str(value)


def follows(value: str, prompt: str) -> bool:
    """Whether the value follows from what the prompt says: it is there, or it is a day that is."""
    said = prompt.casefold()
    if re.search(rf"(?<!\w){re.escape(value.casefold().removesuffix('.0'))}(?!\w)", said):
        return True
    day = re.match(r"(\d{4})-(\d\d)-(\d\d)(?:[ T](\d\d):(\d\d))?", value)
    if day is None:
        return False
    month = _MONTHS.split()[int(day.group(2)) - 1]
    number = rf"\b0?{int(day.group(3))}(?:st|nd|rd|th)?\b"
    return month in said and re.search(number, said) is not None
