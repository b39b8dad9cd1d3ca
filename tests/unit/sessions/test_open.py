"""Which store a setting means."""

from pathlib import Path

import pytest

from openclaw.config.paths import StatePaths
from openclaw.core.errors import InvalidRequest
from openclaw.secrets.refs import Secret
from openclaw.sessions.open import is_address, open_store, store_path


def test_file_is_the_state_directorys_database_and_anything_else_a_path(tmp_path: Path) -> None:
    paths = StatePaths(tmp_path)
    assert store_path("file", paths) == paths.database
    assert store_path("/somewhere/else.db", paths) == Path("/somewhere/else.db")


@pytest.mark.parametrize("spec", ["postgresql://me:hunter2@db/x", "postgres://me:hunter2@db/x"])
def test_a_server_is_no_file_and_its_password_is_not_repeated(tmp_path: Path, spec: str) -> None:
    assert is_address(spec)
    with pytest.raises(InvalidRequest) as refused:
        store_path(spec, StatePaths(tmp_path))
    assert "hunter2" not in str(refused.value)


async def test_a_server_is_opened_by_a_reference_to_its_address(
    tmp_path: Path, postgres_url: str
) -> None:
    async def resolve(text: str) -> Secret:
        assert text == "secret://env/STORE"
        return Secret(postgres_url)

    opened = open_store("secret://env/STORE", StatePaths(tmp_path), resolve=resolve)
    async with opened as store:
        assert (await store.open_session("main", "k")).key == "k"


@pytest.mark.parametrize("spec", ["", "  ", "mysql://x"])
def test_what_names_no_store_is_refused(tmp_path: Path, spec: str) -> None:
    with pytest.raises(InvalidRequest):
        store_path(spec, StatePaths(tmp_path))


async def test_a_store_is_opened_where_the_setting_says(tmp_path: Path) -> None:
    path = tmp_path / "own.db"
    async with open_store(str(path), StatePaths(tmp_path), lease_seconds=1.0) as store:
        await store.open_session("main", "k")
    assert path.exists()
