"""Processes that share sessions and are killed or frozen at any moment."""

from pathlib import Path

import pytest

from openclaw.testing.session_stress import StressPlan, run_stress

pytestmark = pytest.mark.subprocess


def test_nothing_is_lost_doubled_or_out_of_order_when_processes_are_killed_and_frozen(
    tmp_path: Path,
) -> None:
    plan = StressPlan(
        str(tmp_path), processes=4, turns=40, sessions=4, kills=8, freezes=1, lease=1.0
    )
    figures = run_stress(plan)
    assert figures["orders"] == 160
