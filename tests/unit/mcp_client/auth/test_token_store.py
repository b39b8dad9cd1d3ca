"""Where logins are kept, beside the file that the interaction tests use."""

import sys
from pathlib import Path
from typing import Any

import anyio
import keyring
import keyring.backend
import keyring.errors
import pytest
from tests.support.fake_oauth import is_logged_in

from openclaw.config import paths
from openclaw.core.errors import OperatorFacing
from openclaw.mcp_client.auth.token_store import (
    KeyringLoginStore,
    LoginStore,
    ServerLogin,
    login_key,
    open_login_store,
)


class MemoryKeyring(keyring.backend.KeyringBackend):
    """A keyring of this test alone."""

    priority = 1  # pyright: ignore[reportAssignmentType] - as keyring has it

    def __init__(self) -> None:
        super().__init__()
        self.kept: dict[tuple[str, str], str] = {}
        self.locked = False
        self.fixed: set[tuple[str, str]] = set()

    def _check(self) -> None:
        if self.locked:
            raise keyring.errors.KeyringLocked("locked")

    def get_password(self, service: str, username: str) -> str | None:
        self._check()
        return self.kept.get((service, username))

    def set_password(self, service: str, username: str, password: str) -> None:
        self._check()
        self.kept[service, username] = password

    def delete_password(self, service: str, username: str) -> None:
        if (service, username) in self.fixed:
            raise keyring.errors.PasswordDeleteError("read-only")
        del self.kept[service, username]


@pytest.fixture
def ring() -> Any:
    before = keyring.get_keyring()
    ring = MemoryKeyring()
    keyring.set_keyring(ring)
    yield ring
    keyring.set_keyring(before)


def edit(record: dict[str, Any]) -> None:
    record.update(issuer="i", issuers={"i": {"tokens": {"access_token": "t"}}})


def test_the_keyring_keeps_changes_and_forgets(ring: MemoryKeyring, tmp_path: Path) -> None:
    store = open_login_store("keyring", tmp_path)
    assert isinstance(store, KeyringLoginStore)
    key = login_key("https://a.example/")
    assert store.load(key) is None
    assert not store.delete(key)
    store.change(key, edit)
    assert is_logged_in("keyring", tmp_path, "https://a.example/")
    assert list(tmp_path.glob("*.json")) == []
    assert store.delete(key)
    assert not is_logged_in("keyring", tmp_path, "https://a.example/")


def test_one_process_at_a_time_changes_a_login_in_the_keyring(
    ring: MemoryKeyring, tmp_path: Path
) -> None:
    def interrupted(record: dict[str, Any]) -> None:
        lock = paths.locked(tmp_path / "k.json", timeout=0)
        with pytest.raises(OperatorFacing, match="another program"), lock:
            pass

    KeyringLoginStore(tmp_path).change("k", interrupted)


def test_a_keyring_that_is_locked_is_the_operators_matter(
    ring: MemoryKeyring, tmp_path: Path
) -> None:
    store = KeyringLoginStore(tmp_path)
    ring.locked = True
    with pytest.raises(OperatorFacing, match="does not answer"):
        store.load("k")


def test_one_can_log_out_of_a_login_in_the_keyring_that_cannot_be_read(
    ring: MemoryKeyring, tmp_path: Path
) -> None:
    store = KeyringLoginStore(tmp_path)
    store.change("k", edit)
    ((place, _),) = ring.kept.items()
    ring.kept[place] = "{"
    with pytest.raises(OperatorFacing, match="cannot be read"):
        store.load("k")
    ring.fixed.add(place)
    with pytest.raises(OperatorFacing, match="read-only"):
        store.delete("k")
    ring.fixed.clear()
    assert store.delete("k")
    assert ring.kept == {}
    assert list(tmp_path.glob(".k.*")) == []


def test_a_login_of_another_shape_is_refused(tmp_path: Path) -> None:
    store = LoginStore(tmp_path)
    for text in ("[]", "{", "x" * 2_000_000):
        (tmp_path / "k.json").write_text(text)
        with pytest.raises(OperatorFacing, match="log"):
            store.load("k")


HOLDER = """
import fcntl, os, pathlib, sys
lock = os.open(sys.argv[1], os.O_RDWR | os.O_CREAT, 0o600)
fcntl.flock(lock, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.readline()
pathlib.Path(sys.argv[2]).touch()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="it has other locks")
async def test_a_refresh_waits_for_that_of_another_process(tmp_path: Path) -> None:
    url, done, seen = "https://a.example/", tmp_path / "done", list[bool]()
    login = ServerLogin(LoginStore(tmp_path), url)
    lock = tmp_path / f".{login_key(url)}.refresh"
    command = [sys.executable, "-c", HOLDER, str(lock), str(done)]

    async def refresh() -> None:
        async with login.refreshing():
            seen.append(done.exists())

    async with await anyio.open_process(command) as process, anyio.create_task_group() as group:
        assert process.stdin is not None
        assert process.stdout is not None
        await process.stdout.receive()
        group.start_soon(refresh)
        await anyio.sleep(0.1)  # without a lock it would be through long before
        await process.stdin.send(b"\n")
    assert seen == [True]
