"""The bound on how long the event loop is held up, where measuring coverage would hide it.

Coverage makes our own code several times as slow, so that the tests allow for it. Here the same tests
run once more in a process that measures nothing, and hold to the real bound.
"""

import os
import sys
from pathlib import Path

import anyio
import pytest

pytestmark = pytest.mark.subprocess

TESTS = Path(__file__).parents[1]
BOUNDED = (
    TESTS / "hostile" / "test_servers.py",
    TESTS / "process" / "mcp_client" / "test_hostile_servers.py",
)
CHOSEN = "catastrophic or doubles or large_schemas or deep or 200000 or flood_of or millions"


@pytest.mark.skipif(
    "COVERAGE_RUN" not in os.environ, reason="nothing is measured: the tests hold to the bound"
)
async def test_the_loop_is_held_up_for_a_quarter_of_a_second_at_most() -> None:
    plain = {name: value for name, value in os.environ.items() if not name.startswith("COV")}
    quick = ("-q", "-n0", "-p", "no:cacheprovider", "-k", CHOSEN)
    command = [sys.executable, "-m", "pytest", *quick, *map(str, BOUNDED)]
    done = await anyio.run_process(command, env=plain, cwd=TESTS.parent, check=False)
    assert done.returncode == 0, done.stdout.decode()[-4000:]
