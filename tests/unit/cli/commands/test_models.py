"""How far a download is, in words."""

import pytest

from openclaw.cli.render.turn import download_bar
from openclaw.embedded.pull import Progress


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        (Progress("download", 5_000_000, None), "download: 5 MB…"),
        (Progress("check", 0, 10_000_000), f"check {'░' * 24} 0 of 10 MB"),
        (Progress("check", 5_000_000, 10_000_000), f"check {'█' * 12}{'░' * 12} 5 of 10 MB"),
    ],
)
def test_a_terminal_sees_how_far_each_step_is(progress: Progress, shown: str) -> None:
    assert download_bar(progress) == shown
