"""Real server processes, and the certainty that none of them stays."""

import os
from collections.abc import AsyncGenerator
from pathlib import Path

import pytest
from tests.support.connection_bench import Bench


@pytest.fixture
async def bench(tmp_path: Path) -> AsyncGenerator[Bench]:
    bench = Bench(tmp_path / "cache", {**os.environ, "HOST_SECRET": "not for children"})
    yield bench
    await bench.reaper.aclose()
