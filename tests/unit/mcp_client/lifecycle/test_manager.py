"""Which directories a server is told it may work in."""

from pathlib import Path
from typing import Any

import pytest

from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.lifecycle.manager import server_roots


def roots(tmp_path: Path, **settings: Any) -> tuple[Path, ...]:
    config = McpServerConfig.model_validate({"command": "x", **settings})
    return server_roots(config, (tmp_path / "work",), {"HOME": str(tmp_path / "home")})


@pytest.fixture(autouse=True)
def directories(tmp_path: Path) -> None:
    for name in ("work", "home/docs", "data"):
        (tmp_path / name).mkdir(parents=True, exist_ok=True)
    (tmp_path / "file").touch()


def test_the_agents_workspace_is_the_root_of_a_server_whose_arguments_name_none(
    tmp_path: Path,
) -> None:
    assert roots(tmp_path, args=["-y", "some-server"]) == (tmp_path / "work",)


def test_directories_in_the_arguments_are_roots_beside_the_workspace(tmp_path: Path) -> None:
    args = [str(tmp_path / "data"), "~/docs", f"--dir={tmp_path / 'home'}", str(tmp_path / "data")]
    assert roots(tmp_path, args=args) == (
        tmp_path / "work",
        tmp_path / "data",
        tmp_path / "home" / "docs",
        tmp_path / "home",
    )


def test_what_is_missing_relative_a_file_or_no_path_is_none(tmp_path: Path) -> None:
    args = [str(tmp_path / "missing"), "data", str(tmp_path / "file"), "/bad\0path", "", "a=", "."]
    assert roots(tmp_path, args=args) == (tmp_path / "work",)


def test_roots_in_the_configuration_stand_instead_of_all_that(tmp_path: Path) -> None:
    args = [str(tmp_path / "data")]
    assert roots(tmp_path, args=args, roots=["~/docs", "sub", "/not/there"]) == (
        tmp_path / "home" / "docs",
        tmp_path / "work" / "sub",
        Path("/not/there"),
    )
    assert roots(tmp_path, args=args, roots=[]) == ()
