import pytest

from openclaw.discovery.stems import stem
from openclaw.embedded.tool_intent import read_ask


@pytest.mark.parametrize("message", ["I had a great time in Paris.", "My name is Anna", "", "…"])
def test_a_statement_wants_nothing(message: str) -> None:
    assert not read_ask(message).wants_something


@pytest.mark.parametrize(
    "message",
    ["List /a", "I want to see /a", "I'd like the time", "It is 3pm. And in Rome?", "time in Rome"],
)
def test_a_request_wants_something(message: str) -> None:
    assert read_ask(message).wants_something


@pytest.mark.parametrize(
    "message", ["Explain git", "What is a branch?", "How do I commit?", "What is Node.js?"]
)
def test_a_question_about_a_notion_is_known(message: str) -> None:
    assert read_ask(message).explains


def test_the_verb_is_found_behind_politeness_and_in_every_clause() -> None:
    verbs = read_ask("Could you please delete /a and then write it anew?").verbs
    assert {stem("delete"), stem("write")} <= verbs


def test_a_noun_in_the_middle_is_no_verb() -> None:
    assert stem("commit") not in read_ask("Who made the last commit in /a?").verbs


def test_a_negation_is_seen() -> None:
    assert read_ask("Don't delete /a").negated
    assert not read_ask("Delete /a").negated
