import hashlib
import os
from pathlib import Path

import pytest

from openclaw.core.errors import InvalidRequest, ModelUnavailable
from openclaw.embedded.weights import (
    CATALOGUE,
    Weights,
    WeightStore,
    check_name,
    own_file,
    own_weights,
)


@pytest.fixture
def store(tmp_path: Path) -> WeightStore:
    store = WeightStore(tmp_path / "models")
    store.prepare()
    return store


def put(store: WeightStore, content: bytes = b"GGUF data") -> Weights:
    sha256 = hashlib.sha256(content).hexdigest()
    weights = own_weights("mine", "https://a.example/mine.gguf", sha256)
    store.path_of(weights).write_bytes(content)
    return weights


def test_the_directory_is_private(store: WeightStore) -> None:
    assert store.directory.stat().st_mode & 0o777 == 0o700


def test_right_weights_are_hashed_once(store: WeightStore, monkeypatch: pytest.MonkeyPatch) -> None:
    weights = put(store)
    assert store.verify(weights) == store.path_of(weights)
    monkeypatch.setattr("openclaw.embedded.weights.file_sha256", None)
    assert store.verify(weights) == store.path_of(weights)


def test_weights_that_changed_are_hashed_again_and_refused(store: WeightStore) -> None:
    weights = put(store)
    path = store.verify(weights)
    path.write_bytes(b"GGUF dat4")
    os.utime(path, ns=(1, 1))
    with pytest.raises(ModelUnavailable, match="damaged"):
        store.verify(weights)


def test_weights_that_are_not_there_are_said_to_be_missing(store: WeightStore) -> None:
    with pytest.raises(ModelUnavailable, match="cannot read the weights"):
        store.verify(CATALOGUE[0])
    assert not store.is_installed(CATALOGUE[0])


def test_own_weights_are_remembered_by_name(store: WeightStore) -> None:
    weights = put(store)
    store.remember(weights)
    assert store.find("mine") == weights
    assert [one.name for one in store.own()] == ["mine"]
    assert store.find("other") is None
    assert store.find("smollm2") is CATALOGUE[0]


def test_a_note_that_cannot_be_read_is_no_weights(store: WeightStore) -> None:
    (store.directory / "bad.source.json").write_text("[]")
    (store.directory / "worse.source.json").write_text("{")
    (store.directory / "Wrong Name.source.json").write_text('{"sha256": "00"}')
    assert store.own() == []
    assert WeightStore(store.directory / "missing").own() == []


def test_the_catalogue_needs_no_note(store: WeightStore) -> None:
    store.remember(CATALOGUE[1])
    assert list(store.directory.iterdir()) == []


@pytest.mark.parametrize("name", ["../x", "a/b", "A", "", ".hidden", "x" * 65])
def test_a_name_that_is_no_safe_file_name_is_refused(name: str) -> None:
    with pytest.raises(InvalidRequest):
        check_name(name)


def test_a_file_of_the_users_own_must_be_a_gguf(tmp_path: Path) -> None:
    good, bad = tmp_path / "good.gguf", tmp_path / "bad.gguf"
    good.write_bytes(b"GGUF....")
    bad.write_bytes(b"ELF")
    assert own_file(good).name == "good"
    with pytest.raises(ModelUnavailable, match="not a GGUF"):
        own_file(bad)
    with pytest.raises(ModelUnavailable, match="cannot read"):
        own_file(tmp_path / "missing.gguf")
