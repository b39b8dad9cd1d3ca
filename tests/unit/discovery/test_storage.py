import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest
from tests.unit.discovery.catalogue import TOOLS

from openclaw.discovery import stems, tool_index
from openclaw.discovery.stems import ToolDocument
from openclaw.discovery.tool_index import Match, ToolIndex, build_index, load_index, save_index

QUERIES = ("create an issue", "rain tomorrow", "recipent", "erase a file. Then send a mail to Ann")


def found(searched: ToolIndex) -> list[list[Match]]:
    return [searched.search(query) for query in QUERIES]


@pytest.fixture
def stored(tmp_path: Path) -> Path:
    save_index(build_index(TOOLS), tmp_path / "cache" / "index", "hash")
    return tmp_path / "cache" / "index"


def test_a_stored_index_finds_the_same(stored: Path) -> None:
    loaded = load_index(stored, "hash")
    assert loaded is not None
    assert found(loaded) == found(build_index(TOOLS))


def test_another_catalogues_index_is_not_loaded(stored: Path) -> None:
    assert load_index(stored, "another hash") is None


def test_a_missing_file_is_not_loaded(tmp_path: Path) -> None:
    assert load_index(tmp_path / "index", "hash") is None


@pytest.mark.parametrize("share", [0.0, 0.001, 0.1, 0.5, 0.9, 0.999])
def test_half_a_file_is_not_loaded(stored: Path, share: float) -> None:
    data = stored.read_bytes()
    stored.write_bytes(data[: int(len(data) * share)])
    assert load_index(stored, "hash") is None


@pytest.mark.parametrize("data", [b"[]", b"\xff" * 100, b"\x02" + b"\0" * 7 + b"{}"])
def test_a_file_of_something_else_is_not_loaded(stored: Path, data: bytes) -> None:
    stored.write_bytes(data)
    assert load_index(stored, "hash") is None


def test_saving_leaves_no_other_files(stored: Path) -> None:
    save_index(build_index(TOOLS[:3]), stored, "hash")
    assert list(stored.parent.iterdir()) == [stored]


def test_an_updated_index_finds_what_a_new_one_finds(stored: Path) -> None:
    changed = [replace(TOOLS[0], description="Report a defect"), *TOOLS[2:]]
    for previous in (build_index(TOOLS), load_index(stored, "hash")):
        updated = build_index(changed, previous=previous)
        assert found(updated) == found(build_index(changed))


def test_an_update_reads_only_the_tools_that_changed(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def note(document: ToolDocument) -> dict[str, float]:
        read.append(document.full_name)
        return stems.document_stems(document)

    previous = build_index(TOOLS)
    monkeypatch.setattr(tool_index, "document_stems", note)
    build_index([*TOOLS[1:], replace(TOOLS[0], description="New")], previous=previous)
    assert read == [TOOLS[0].full_name]


def test_importing_the_search_does_not_import_numpy() -> None:
    script = "import sys, openclaw.discovery.cache; sys.exit('numpy' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", script], check=False).returncode == 0
