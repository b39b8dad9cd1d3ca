import pytest

from openclaw.gateway.connections import most_connections


@pytest.mark.parametrize(
    ("configured", "files", "most"),
    [
        (2048, 8192, 2048),
        (2048, 1024, 480),
        (100, 1024, 100),
        (2048, 64, 8),
        (2048, 20, 8),
    ],
)
def test_a_gateway_serves_no_more_connections_than_it_may_open_files(
    configured: int, files: int, most: int
) -> None:
    assert most_connections(configured, files) == most
