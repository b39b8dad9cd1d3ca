"""Tokens: compared whole, kept private, gone with the gateway."""

from pathlib import Path

from openclaw.gateway.auth import Tokens, local_token, local_token_path, read_local_token
from openclaw.secrets.refs import Secret


def test_either_token_is_admitted_and_nothing_like_it() -> None:
    tokens = Tokens(Secret("configured"), Secret("local"))
    assert tokens.admits(b"configured")
    assert tokens.admits(b"local")
    for wrong in (None, b"", b"Configured", b"configure", b"configuredx", "configurée".encode()):
        assert not tokens.admits(wrong)


def test_where_none_is_configured_everybody_is_admitted() -> None:
    tokens = Tokens(None, Secret("local"))
    assert tokens.admits(None)
    assert tokens.admits(b"anything")


def test_the_local_token_is_private_fresh_and_goes_with_the_gateway(tmp_path: Path) -> None:
    with local_token(tmp_path) as first:
        assert local_token_path(tmp_path).stat().st_mode & 0o777 == 0o600
        assert read_local_token(tmp_path) == first
        assert len(first.reveal()) >= 40
    assert read_local_token(tmp_path) is None
    local_token_path(tmp_path).write_text("left by a crash")
    with local_token(tmp_path) as second:
        assert read_local_token(tmp_path) == second
        assert second != first
    assert list(tmp_path.glob("gateway*")) == []
