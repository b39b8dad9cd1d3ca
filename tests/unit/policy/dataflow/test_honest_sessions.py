"""Ordinary work must not become a quiz."""

import pytest
from tests.unit.policy.dataflow.honest_sessions import SESSIONS
from tests.unit.policy.dataflow.kit import Honest, result, said
from tests.unit.policy.dataflow.second_batch import H

from openclaw.policy.dataflow import Ask, Index, Pass, Rules, check

ALL = [*SESSIONS, *H]

MOST_WITH_MORE_THAN_ONE = 5


def questions(session: Honest) -> list[Ask]:
    index, rules = Index(), Rules()
    asked: list[Ask] = []
    for step in session.script:
        if isinstance(step, str):
            index.add(said(step))
            continue
        decision = check(step.call, index, rules)
        if isinstance(decision, Ask) and decision.key not in {one.key for one in asked}:
            asked.append(decision)
        assert isinstance(decision, Ask | Pass)
        index.add(result(step.call, step.text, step.structured))
    return asked


def test_there_are_at_least_thirty_sessions() -> None:
    assert len(SESSIONS) >= 30


def test_few_ordinary_sessions_need_more_than_one_question() -> None:
    quiz = [session.name for session in ALL if len(questions(session)) > 1]
    assert len(quiz) <= MOST_WITH_MORE_THAN_ONE, quiz


@pytest.mark.parametrize("session", ALL, ids=lambda one: one.name)
def test_an_ordinary_session_is_not_a_quiz(session: Honest) -> None:
    assert len(questions(session)) <= 2
