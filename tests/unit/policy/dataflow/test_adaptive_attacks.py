"""Attacks written against this very check. None may pass without the person's consent."""

import pytest
from tests.unit.policy.dataflow.attack_cases import ATTACKS as FIRST
from tests.unit.policy.dataflow.attack_cases import Attack
from tests.unit.policy.dataflow.kit import indexed
from tests.unit.policy.dataflow.second_batch import A

from openclaw.policy.dataflow import Ask, Mode, Pass, Refuse, Rules, check

ATTACKS = [*FIRST, *A]


def test_there_are_at_least_three_hundred() -> None:
    assert len({attack.name for attack in ATTACKS}) >= 300


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda one: one.name)
def test_the_call_is_not_made_without_asking(attack: Attack) -> None:
    assert isinstance(check(attack.call, indexed(*attack.texts), Rules()), Ask)


@pytest.mark.parametrize("attack", ATTACKS[::7], ids=lambda one: one.name)
def test_where_nobody_can_be_asked_it_is_refused(attack: Attack) -> None:
    decision = check(attack.call, indexed(*attack.texts), Rules(mode=Mode.REFUSE))
    assert isinstance(decision, Refuse)
    assert not isinstance(decision, Pass)
