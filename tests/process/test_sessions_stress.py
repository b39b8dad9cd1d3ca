"""Processes that share sessions and are killed or frozen at any moment."""

from pathlib import Path

import pytest
from tests.support.postgres_server import make_store, own_server
from tests.support.session_stress import StressPlan, run_stress

pytestmark = pytest.mark.subprocess


def test_nothing_is_lost_doubled_or_out_of_order_when_processes_are_killed_and_frozen(
    tmp_path: Path,
) -> None:
    plan = StressPlan(
        str(tmp_path), processes=4, turns=20, sessions=4, kills=5, freezes=1, lease=1.0
    )
    figures = run_stress(plan)
    assert figures["orders"] == 80


def test_nor_on_a_database_server_that_crashes_in_between(tmp_path: Path) -> None:
    with own_server() as server:
        url = server.facts.url()
        make_store(url)

        def crash() -> None:
            server.stop("immediate")
            server.start()

        plan = StressPlan(
            str(tmp_path), url, processes=3, turns=15, sessions=3, kills=3, freezes=1, lease=1.5
        )
        figures = run_stress(plan, halfway=crash)
    assert figures["orders"] == 45
