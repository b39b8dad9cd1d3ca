"""No regular expression takes longer than in proportion to the text that it is given."""

import pytest
from tests.support.pattern_growth import (
    LONGEST,
    Found,
    growth,
    patterns_made_of_values,
    patterns_of_the_program,
)

from openclaw.embedded.model import RouterPlanner
from openclaw.embedded.model_io import Turn
from openclaw.embedded.router import MAX_MESSAGE

# Only the beginning of a message is read; see the last test.
READ_IN_PART = {
    f"openclaw.embedded.{name}": MAX_MESSAGE for name in ("arguments", "entities", "tool_intent")
}
# The filter of answers tries these at one place, and on no more than a few thousand characters.
BOUNDED = ("!?\\[", "\\]\\(")
# Patterns made of values, in functions: fixed text between fixed ends unless it says otherwise.
MADE_OF_VALUES = {
    "openclaw.agent.tools.search_worker": 2,  # the model's own; runs in a process that can be ended
    "openclaw.content.detection": 1,  # of a table, and so among the patterns that are tried here
    "openclaw.content.sanitise": 6,  # likewise, once `prepare` ran
    "openclaw.embedded.arguments": 2,
    "openclaw.embedded.tool_intent": 2,
    "openclaw.models.failures": 1,  # of a table
    "openclaw.policy.dataflow.fenced_code": 1,  # one line, from its beginning
    "openclaw.policy.dataflow.intent": 1,
    "openclaw.policy.dataflow.records": 1,
    "openclaw.policy.dataflow.text_index": 2,
    "openclaw.policy.decide": 1,  # made by fnmatch, and never backtracks
    "openclaw.secrets.patterns": 1,
    "openclaw.secrets.shapes": 1,  # of a table
    "openclaw.sessions.queries": 1,
}


def test_the_check_knows_a_bad_pattern_from_a_good_one() -> None:
    assert growth(Found("", r"\[(?:[^\[\]]|\[[^\]]*\])*\]\(", 0)) is not None
    assert growth(Found("", r"(a+)+$", 0)) is not None
    assert growth(Found("", r"\w+@", 0)) is not None
    assert growth(Found("", r"\w{1,64}@", 0)) is None
    assert growth(Found("", r"\w+@", 0, frozenset({"match"}))) is None
    assert growth(Found("", r"\s*\w*\s*", 0, frozenset({"match"}))) is None
    assert growth(Found("", r"\s*\w*\s*", 0, frozenset({"fullmatch"}))) is not None


@pytest.mark.filterwarnings("ignore")
def test_no_pattern_is_slow() -> None:
    patterns = patterns_of_the_program()
    assert len(patterns) > 400
    slow = {
        f"{found.where}: {found.pattern}": growth(
            found, seconds=1, longest=READ_IN_PART.get(found.where, LONGEST)
        )
        for found in patterns
        if not found.pattern.startswith(BOUNDED)
    }
    assert {pattern: worst for pattern, worst in slow.items() if worst is not None} == {}


def test_every_pattern_that_is_made_of_values_is_known() -> None:
    assert patterns_made_of_values() == MADE_OF_VALUES


@pytest.mark.parametrize(
    "pump", ["a.", "-", "“a", "a@a", "run ", "write to ", "for a ", "remember that ", " "]
)
async def test_a_message_without_end_is_read_in_part(pump: str) -> None:
    """Read whole, each of these would take hours."""
    for beginning in ("", "remember that ", "please "):
        turn = Turn(message=beginning + pump * (2_000_000 // len(pump)) + "!")
        await RouterPlanner().plan(turn, (), 100)
