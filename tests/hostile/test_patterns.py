"""No regular expression takes longer than in proportion to the text that it is given."""

from itertools import count

import pytest
from tests.support.pattern_growth import (
    Found,
    growth,
    growth_of,
    nested_possessive,
    patterns_made_of_values,
    patterns_of_the_program,
)

from openclaw.embedded.model import RouterPlanner
from openclaw.embedded.model_io import Turn
from openclaw.embedded.router import MAX_MESSAGE
from openclaw.policy.dataflow.check import Call, check
from openclaw.policy.dataflow.effects import Tool
from openclaw.policy.dataflow.rules import FlowRules
from openclaw.policy.dataflow.text_index import PERSON, Index, SeenText, TextOrigin

# Only the beginning of a message is read (see the last test), so they may take quadratic time.
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
    "openclaw.policy.dataflow.text_index": 3,
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
            found, seconds=1, longest=READ_IN_PART.get(found.where)
        )
        for found in patterns
        if not found.pattern.startswith(BOUNDED)
    }
    assert {pattern: worst for pattern, worst in slow.items() if worst is not None} == {}


LONG_ARGUMENTS = (
    *(
        "ordinary words in a sentence. ",
        "a@a",
        "https://evil.test/?d=1 ",
        "aGVsbG8gd29ybGQ",
        "61 62 63 ",
    ),
    *(
        "1.234,5 ",
        "AB12 3456 7890 ",
        "- name: x\n",
        "copy x ",
        "rm -a ",
        "find x ",
        "socket ",
        "$(a",
    ),
    *(
        "git push ",
        "/etc/x",
        "./a/b/",
        "%41",
        "&#97;",
        "[a]",
        "(((",
        " ",
        "\n",
        '"a',
        "a=b ",
        "a.b.",
    ),
    *("1", "\u0430 ", "a b c ", "104 101 ", "id_rsa/", "\\u0041"),
)


@pytest.mark.parametrize("parameter", ["text", "command", "path"])
def test_an_argument_is_checked_in_proportion_to_its_length(parameter: str) -> None:
    page = SeenText(TextOrigin("page", "https://a.example"), "ordinary text in a sentence. " * 50)
    index = Index()
    index.add(SeenText(PERSON, "Write a note about the report."))
    index.add(page)
    tool = Tool("notes", "write_note", {"properties": {parameter: {"type": "string"}}})

    number = count()

    def judge(value: str) -> None:
        never_cached = f"{value} {next(number)}"
        check(Call(tool, {parameter: never_cached}), index, FlowRules())

    assert growth_of(judge, LONG_ARGUMENTS, seconds=8) is None


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


@pytest.mark.filterwarnings("ignore")
def test_no_possessive_group_is_inside_another_repetition() -> None:
    assert nested_possessive(r"(?:a(?:bc)?+)*")
    assert not nested_possessive(r"(?:ab++(?:cd)*)+(?:ef)*+")
    found = {one.pattern for one in patterns_of_the_program() if nested_possessive(one.pattern)}
    assert found == set()
