"""A short soak: everything at once, and nothing leaked or lost; `scripts/soak` runs for longer."""

from pathlib import Path

import pytest
from tests.support import gateway_life, soak
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import scripted_model

pytestmark = [pytest.mark.subprocess, pytest.mark.warm_start]


async def test_everything_at_once_leaks_nothing_and_loses_nothing(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    async with scripted_model(rules=soak.RULES, default=gateway_life.DEFAULT) as model:
        outcome = await soak.soak(Installation(state), model.url, 5)
    assert [found for found in outcome.findings if not found[2]] == []
    assert {"orders", "local orders", "completions", "streams"} <= outcome.done.keys()
