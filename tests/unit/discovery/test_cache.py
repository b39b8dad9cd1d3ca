"""One index per catalogue, in memory and in a file."""

import os
from pathlib import Path

import pytest
from tests.unit.discovery.catalogue import TOOLS, tool

from openclaw.discovery.cache import IN_FILES, IN_MEMORY, IndexCache
from openclaw.discovery.stems import ToolDocument


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "tools"


def catalogue(number: int) -> list[ToolDocument]:
    return [*TOOLS, tool("extra", f"number{number}", "Counts something")]


def test_the_same_catalogue_has_one_index_in_any_order() -> None:
    one = IndexCache()
    assert one.index_of(TOOLS) is one.index_of(TOOLS[::-1])


def test_the_next_process_reads_the_file_and_does_not_write_it_again(place: Path) -> None:
    built = IndexCache(place).index_of(TOOLS)
    (file,) = place.iterdir()
    written = file.stat().st_ino
    read = IndexCache(place).index_of(TOOLS)
    assert read is not built
    assert read.search("create an issue") == built.search("create an issue")
    assert [path.stat().st_ino for path in place.iterdir()] == [written]


def test_a_changed_catalogue_updates_the_index(place: Path) -> None:
    one = IndexCache(place)
    assert "mcp_extra_number1" not in one.index_of(TOOLS).names
    changed = one.index_of(catalogue(1))
    assert changed.search("number1 counts")[0].full_name == "mcp_extra_number1"
    new = IndexCache().index_of(catalogue(1))
    assert changed.search("counts an issue") == new.search("counts an issue")


def test_old_indexes_go_from_memory_and_from_the_directory(place: Path) -> None:
    one = IndexCache(place)
    first = one.index_of(TOOLS)
    os.utime(next(place.iterdir()), (1, 1))
    for number in range(IN_FILES):
        one.index_of(catalogue(number))
    assert len(list(place.iterdir())) == IN_FILES
    assert one.index_of(TOOLS) is not first
    assert IN_MEMORY < IN_FILES


def test_a_broken_file_is_built_anew(place: Path) -> None:
    IndexCache(place).index_of(TOOLS)
    (file,) = place.iterdir()
    file.write_bytes(b"not an index")
    assert IndexCache(place).index_of(TOOLS).names == tuple(each.full_name for each in TOOLS)
    assert file.stat().st_size > 100


def test_a_directory_that_cannot_be_written_costs_only_time(place: Path) -> None:
    place.write_text("in the way")
    assert (
        IndexCache(place).index_of(TOOLS).search("weather")[0].full_name == "mcp_sky_get_forecast"
    )
