"""How far a download is, in words."""

import pytest

from openclaw.cli.chat.turn_view import download_bar
from openclaw.core.events import Downloading


@pytest.mark.parametrize(
    ("progress", "shown"),
    [
        (Downloading("download", 5_000_000, None), "download: 5 MB…"),
        (Downloading("check", 0, 10_000_000), f"check {'░' * 24} 0 of 10 MB"),
        (Downloading("check", 5_000_000, 10_000_000), f"check {'█' * 12}{'░' * 12} 5 of 10 MB"),
    ],
)
def test_a_terminal_sees_how_far_each_step_is(progress: Downloading, shown: str) -> None:
    assert download_bar(progress) == shown
