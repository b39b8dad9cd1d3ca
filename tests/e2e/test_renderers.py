"""What an answer may show, by the renderers of Markdown that clients on Node use."""

import random
from collections.abc import Generator

import pytest
from tests.e2e.conftest import installed_packages
from tests.hostile.test_answers import live_addresses
from tests.support.answer_attacks import ATTACKS, KNOWN, attack
from tests.support.renderers import Renderers, renderers

from openclaw.policy.dataflow.answers import AnswerStream


@pytest.fixture(scope="module")
def rendered() -> Generator[Renderers]:
    packages = installed_packages("renderers")
    with renderers(packages.node, packages.modules.parent) as running:
        yield running


def test_the_renderers_do_show_what_is_not_filtered(rendered: Renderers) -> None:
    live = [use for text in ATTACKS for use in live_addresses(text, rendered)]
    assert {use.renderer for use in live if use.loads} == {use.renderer for use in live}
    assert len({use.renderer for use in live}) == 10


def test_no_known_attack_survives(rendered: Renderers) -> None:
    for text in ATTACKS:
        assert live_addresses(AnswerStream(KNOWN).whole(text), rendered) == [], text


@pytest.mark.parametrize("seed", range(10, 14))
def test_nothing_generated_survives(rendered: Renderers, seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(300):
        text = attack(rng)
        assert live_addresses(AnswerStream(KNOWN).whole(text), rendered) == [], text
