"""A short life of a gateway at random; `scripts/soak` runs for longer."""

import random
from pathlib import Path

import pytest
from tests.support import gateway_life
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import scripted_model

pytestmark = pytest.mark.warm_start

STORE_CONNECTIONS = 5  # one that writes and four that read


async def test_after_a_wild_life_nothing_has_leaked_and_no_line_is_lost(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    installation = Installation(state)
    async with scripted_model(rules=gateway_life.RULES, default=gateway_life.DEFAULT) as model:
        gateway_life.configure(installation, model.url, 0)
        async with installation.process() as process:
            info = await installation.running()
            life = gateway_life.Life(installation, model.url, info, random.Random(5))
            await life.rest()
            children = gateway_life.children_of(process.pid)
            await life.live(2, answers=5)
            await life.rest()
            before = await gateway_life.holdings(installation, process.pid, children)
            await life.live(3, answers=15)
            await life.rest()
            after = await gateway_life.holdings(installation, process.pid, before.processes)
            process.terminate()
            assert await process.wait() == 0
    assert after.processes <= before.processes
    more = after.more_than(before)
    # The store opens a connection for each of those who read at once, up to a bound.
    assert {kind for kind in more if not kind.startswith("sessions.db")} == set()
    assert after.kinds.get("sessions.db", 0) <= STORE_CONNECTIONS
    assert after.temporary == 0
    assert len(life.told) > 10
    assert await gateway_life.check_transcripts(installation, life.told) > len(life.told)
