"""Orders as tasks while everything around them is killed; `scripts/soak` does it for 200."""

import random
from pathlib import Path

import anyio
import pytest
from tests.support import task_life
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import scripted_model

pytestmark = [pytest.mark.subprocess, pytest.mark.warm_start]


async def test_kills_of_gateway_server_and_client_lose_double_and_leave_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "state").mkdir(mode=0o700)
    installation = Installation(tmp_path / "state")
    async with scripted_model(rules=task_life.RULES) as model:
        task_life.configure(installation, model.url, tmp_path / "world")
        life = task_life.TaskLife(installation, tmp_path / "world", 12, random.Random(3))
        with anyio.fail_after(600):
            await life.live(clients=3, every=2.0)
        found = await task_life.verdict(life)
    assert (found.lost, found.doubled, found.stuck, found.untrue) == ([], [], [], [])
    assert found.completed + found.failed + found.unheard == 12
    assert life.kills.total() > 0
