from pathlib import Path

import numpy as np
import pytest
from tests.unit.discovery.catalogue import TOOLS

from openclaw.discovery.tool_index import build_index, load_index, save_index
from openclaw.discovery.vectors import (
    WordVectors,
    cut_greedily,
    load_vectors,
    read_table,
    write_table,
)

WORDS = {
    "issue": [1.0, 0.0, 0.0],
    "grievance": [0.9, 0.1, 0.0],
    "file": [0.0, 1.0, 0.0],
    "parchment": [0.0, 0.9, 0.1],
    "time": [0.0, 0.0, 1.0],
}


@pytest.fixture
def vectors(tmp_path: Path) -> WordVectors:
    path = tmp_path / "words"
    rows = np.array(list(WORDS.values()), dtype=np.float32)
    write_table(path, list(WORDS), rows)
    return read_table(path)


def test_a_word_near_in_meaning_finds_a_tool_that_does_not_have_it(vectors: WordVectors) -> None:
    found = build_index(TOOLS, vectors).search("parchment", 2)
    assert {match.server for match in found} == {"files"}


def test_a_word_is_its_longest_known_start_and_then_the_longest_pieces_of_the_rest() -> None:
    vocabulary = {"time": 0, "t": 1, "##zone": 2, "##z": 3, "##s": 4}
    assert cut_greedily("timezones", vocabulary) == [0, 2, 4]
    assert cut_greedily("timer", vocabulary) == []


def test_our_own_table_knows_words_of_near_meaning() -> None:
    own = load_vectors()
    photo, picture, invoice = (own.mean([word]) for word in ("photo", "picture", "invoice"))
    assert photo @ picture > 2 * photo @ invoice


def test_a_table_is_read_as_it_was_written(tmp_path: Path) -> None:
    path = tmp_path / "table"
    write_table(path, ["left", "##right"], np.array([[1, 0], [0, 0.5]], dtype=np.float32))
    table = read_table(path)
    assert table.mean(["left"]) == pytest.approx([1, 0])
    assert table.mean(["leftright"]) == pytest.approx(np.array([2, 1]) / 5**0.5, abs=0.01)


def test_unknown_words_have_no_direction(vectors: WordVectors) -> None:
    assert not vectors.mean(["日本語"]).any()
    assert not vectors.mean([]).any()


def test_a_mean_has_length_one(vectors: WordVectors) -> None:
    assert np.linalg.norm(vectors.mean(["issue", "time"])) == pytest.approx(1, abs=1e-5)


def test_a_stored_index_with_vectors_finds_the_same(tmp_path: Path, vectors: WordVectors) -> None:
    index = build_index(TOOLS, vectors)
    save_index(index, tmp_path / "index", "hash")
    loaded = load_index(tmp_path / "index", "hash", vectors)
    assert loaded is not None
    assert loaded.search("parchment issue") == index.search("parchment issue")


def test_a_file_with_other_vectors_is_not_loaded(tmp_path: Path, vectors: WordVectors) -> None:
    save_index(build_index(TOOLS), tmp_path / "index", "hash")
    assert load_index(tmp_path / "index", "hash", vectors) is None


def test_an_updated_index_has_the_vectors_of_a_new_one(vectors: WordVectors) -> None:
    before = build_index(TOOLS[2:], vectors)
    updated = build_index(TOOLS, vectors, before)
    assert updated.search("grievance") == build_index(TOOLS, vectors).search("grievance")
