import stat
from pathlib import Path

import pytest

from openclaw.mcp.declarations import (
    Listing,
    Prompt,
    Resource,
    ResourceTemplate,
    Tool,
)
from openclaw.mcp_client.session.listing import CatalogCache

LISTING = Listing(
    tools=(Tool(name="now", description="The time.", input_schema={"type": "object"}),),
    resources=(Resource(uri="a://1", name="one"),),
    resource_templates=(ResourceTemplate(uri_template="a://{id}", name="any"),),
    prompts=(Prompt(name="greet"),),
    instructions="Be kind.",
)


def test_what_is_stored_comes_back(tmp_path: Path) -> None:
    CatalogCache(tmp_path / "new").store("key", LISTING)
    assert CatalogCache(tmp_path / "new").load("key") == LISTING


def test_the_file_is_private_and_nothing_else_is_left(tmp_path: Path) -> None:
    directory = tmp_path / "cache"
    CatalogCache(directory).store("key", LISTING)
    (path,) = directory.iterdir()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_what_was_never_stored_is_not_there(tmp_path: Path) -> None:
    assert CatalogCache(tmp_path).load("key") is None


@pytest.mark.parametrize(
    "content", [b"", b"{", b"[]", b"{}", b'{"tools": 1}', b'{"tools": [{}]}', b"\xff"]
)
def test_a_damaged_file_is_as_good_as_none(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "key.json").write_bytes(content)
    assert CatalogCache(tmp_path).load("key") is None


def test_a_giant_file_is_not_read(tmp_path: Path) -> None:
    with (tmp_path / "key.json").open("wb") as file:
        file.truncate(17 * 1024 * 1024)
    assert CatalogCache(tmp_path).load("key") is None


def test_a_directory_that_cannot_be_written_costs_nothing_but_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("")
    CatalogCache(tmp_path / "file" / "below").store("key", LISTING)
    assert "could not be kept" in caplog.text
