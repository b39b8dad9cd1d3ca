"""Who may do what at the gateway."""

import stat
from pathlib import Path

import pytest

from openclaw.core.clock import SystemClock
from openclaw.core.errors import InvalidRequest, NotFound, OperatorFacing
from openclaw.gateway.tokens import (
    LINK_SECONDS,
    PAGE_SECONDS,
    TokenFile,
    Tokens,
    owner_token,
    owner_token_path,
)
from openclaw.secrets.refs import Secret


class Clock(SystemClock):
    def __init__(self) -> None:
        self.seconds = 1_000_000.0

    def now_ms(self) -> int:
        return int(self.seconds * 1000)

    def monotonic(self) -> float:
        return self.seconds


def tokens(clock: Clock, **more: object) -> Tokens:
    return Tokens(Secret("o" * 43), clock, **more)  # pyright: ignore[reportArgumentType]


def test_the_owners_token_is_made_once_and_only_its_owner_can_read_it(tmp_path: Path) -> None:
    first = owner_token(tmp_path)
    assert stat.S_IMODE(owner_token_path(tmp_path).stat().st_mode) == 0o600
    owner_token_path(tmp_path).chmod(0o644)
    assert owner_token(tmp_path).reveal() == first.reveal()
    assert stat.S_IMODE(owner_token_path(tmp_path).stat().st_mode) == 0o600


def test_a_directory_in_its_place_is_told_with_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "gateway.token").mkdir()
    with pytest.raises(OperatorFacing, match="Is a directory") as raised:
        owner_token(tmp_path)
    assert f"move the directory {tmp_path}/gateway.token away" in str(raised.value.hint)


def test_an_empty_file_is_not_a_token(tmp_path: Path) -> None:
    owner_token_path(tmp_path).write_text("")
    assert len(owner_token(tmp_path).reveal()) >= 32


def test_nobody_is_let_in_without_a_token() -> None:
    assert tokens(Clock()).grant(None) is None
    assert tokens(Clock()).grant(b"") is None
    assert tokens(Clock()).grant(b"a guess") is None


def test_a_named_token_allows_what_it_was_made_for_until_it_is_revoked(tmp_path: Path) -> None:
    clock = Clock()
    file = TokenFile(tmp_path, clock)
    value = file.add("laptop", ["orders"]).reveal()
    known = tokens(clock, named=TokenFile(tmp_path, clock))
    grant = known.grant(value.encode())
    assert grant is not None
    assert grant.allows("orders")
    assert not grant.allows("read")
    assert not grant.allows("admin")
    assert not grant.owner
    assert value not in (tmp_path / "tokens.json").read_text()
    file.remove("laptop")
    assert known.grant(value.encode()) is None
    with pytest.raises(NotFound):
        file.remove("laptop")


@pytest.mark.parametrize(
    ("name", "scopes"),
    [("", ["read"]), ("a\nb", ["read"]), ("owner", ["orders"]), ("x", ["all"]), ("x", [])],
)
def test_names_and_scopes_are_checked(tmp_path: Path, name: str, scopes: list[str]) -> None:
    with pytest.raises(InvalidRequest):
        TokenFile(tmp_path, Clock()).add(name, scopes)


def test_a_link_logs_in_one_page_once() -> None:
    known = tokens(Clock())
    code = known.new_link_code()
    page = known.redeem(code)
    assert page is not None
    grant = known.grant(page.reveal().encode())
    assert grant is not None
    assert grant.allows("admin")
    assert not grant.owner
    assert known.redeem(code) is None


def test_a_link_and_a_page_run_out() -> None:
    clock = Clock()
    known = tokens(clock)
    old = known.new_link_code()
    page = known.redeem(known.new_link_code())
    assert page is not None
    clock.seconds += LINK_SECONDS + 1
    assert known.redeem(old) is None
    assert known.grant(page.reveal().encode()) is not None
    clock.seconds += PAGE_SECONDS
    assert known.grant(page.reveal().encode()) is None


@pytest.mark.parametrize("change", [".9999999999999.", ".x.", "."])
def test_a_pages_token_cannot_be_changed(change: str) -> None:
    known = tokens(Clock())
    page = known.redeem(known.new_link_code())
    assert page is not None
    kind, _, nonce, signature = page.reveal().split(".")
    assert known.grant(f"{kind}{change}{nonce}.{signature}".encode()) is None
