"""The file of pins: private, whole, shared by processes, and never taken for empty when it is not."""

import stat
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from openclaw.config.agent_schema import McpServerConfig
from openclaw.core.errors import NotFound, OperatorFacing
from openclaw.mcp_client.catalog.pin_store import PinStore, ShadowingMonitor, pin_key, target_of
from openclaw.mcp_client.catalog.pins import Declaration, PinReport


def config(**entry: Any) -> McpServerConfig:
    return McpServerConfig.model_validate(entry)


def tools(**digests: str) -> dict[str, Declaration]:
    return {name: Declaration(digest, f"text {digest}") for name, digest in digests.items()}


@pytest.fixture
def store(tmp_path: Path) -> PinStore:
    return PinStore(tmp_path / "state" / "pins.json")


def test_what_is_pinned_is_there_in_the_next_process(store: PinStore, tmp_path: Path) -> None:
    assert store.observe("k", "a", "prog", tools(one="1")) == PinReport()
    again = PinStore(tmp_path / "state" / "pins.json")
    assert again.observe("k", "a", "prog", tools(one="2")).changed == ("one",)
    assert again.load()["k"].accepted == tools(one="1")
    assert again.load()["k"].pending == tools(one="2")


def test_the_file_is_private(store: PinStore, tmp_path: Path) -> None:
    store.observe("k", "a", "prog", tools(one="1"))
    path = tmp_path / "state" / "pins.json"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_seeing_the_same_again_writes_nothing(store: PinStore) -> None:
    store.observe("k", "a", "prog", tools(one="1"))
    stamp = store.stamp()
    store.observe("k", "a", "prog", tools(one="1"))
    assert store.stamp() == stamp


def test_accepting_says_what_was_accepted(store: PinStore) -> None:
    store.observe("k", "a", "prog", tools(one="1"))
    store.observe("k", "a", "prog", tools(one="2", two="2"))
    assert store.accept("k", ["two"]) == ("two",)
    assert store.accept("k") == ("one",)
    assert store.accept("k") == ()
    assert not store.observe("k", "a", "prog", tools(one="2", two="2")).unaccepted


def test_what_is_not_there_cannot_be_accepted(store: PinStore) -> None:
    store.observe("k", "a", "prog", tools())
    with pytest.raises(NotFound):
        store.accept("other")


@pytest.mark.parametrize(
    "damage", ["{", "[]", '{"format": 2, "servers": {}}', '{"format": 1, "servers": {"k": {}}}']
)
def test_a_damaged_file_is_no_empty_one(store: PinStore, tmp_path: Path, damage: str) -> None:
    store.observe("k", "a", "prog", tools(one="1"))
    (tmp_path / "state" / "pins.json").write_text(damage)
    with pytest.raises(OperatorFacing, match="cannot be read"):
        store.observe("k", "a", "prog", tools(one="2"))
    assert (tmp_path / "state" / "pins.json").read_text() == damage


WRITER = """
import sys
from pathlib import Path
from openclaw.mcp_client.catalog.pin_store import PinStore
from openclaw.mcp_client.catalog.pins import Declaration
for turn in range(10):
    key = f"{sys.argv[2]}-{turn}"
    PinStore(Path(sys.argv[1])).observe(key, "a", "prog", {"one": Declaration("1", "")})
"""


@pytest.mark.subprocess
def test_processes_that_write_at_once_lose_nothing(store: PinStore, tmp_path: Path) -> None:
    path = str(tmp_path / "state" / "pins.json")
    writers = [
        subprocess.Popen([sys.executable, "-c", WRITER, path, str(number)]) for number in range(4)
    ]
    assert [writer.wait(60) for writer in writers] == [0, 0, 0, 0]
    assert len(store.load()) == 40


def test_a_server_is_known_by_what_it_runs_and_not_by_its_name_or_secrets() -> None:
    one = pin_key(config(command="npx", args=["-y", "server"], env={"TOKEN": "a"}))
    assert one == pin_key(config(command="npx", args=["-y", "server"], env={"TOKEN": "b"}))
    assert one != pin_key(config(command="npx", args=["-y", "server@2"]))
    assert pin_key(config(url="https://a/mcp")) != pin_key(config(url="https://b/mcp"))


def test_what_is_shown_of_a_server_holds_no_credential() -> None:
    assert target_of(config(command="/usr/bin/npx", args=["--token", "sesame"])) == "npx"
    shown = target_of(config(url="https://me:sesame@a.example:8443/mcp?key=sesame"))
    assert shown == "https://a.example:8443/mcp"


def test_two_servers_with_the_same_tools_are_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    tools = {f"tool_{n}": frozenset[str]() for n in range(12)}
    servers: Any = [(name, SimpleNamespace(mentions=tools)) for name in ("a", "b")]
    found = ShadowingMonitor().look(servers)
    assert len(found) >= 12
    assert len(caplog.messages) == 1
    assert "(and 11 more)" in caplog.messages[0]
