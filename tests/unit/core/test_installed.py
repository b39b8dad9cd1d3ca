"""How a further part of the program is installed, for each way that the rest of it was."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.installed import install_command

WHEEL = "file:///tmp/openclaw_runtime-1-py3-none-any.whl"


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A place for packages that comes before all others, with this program in it."""
    meta = tmp_path / "openclaw_runtime-1.dist-info"
    meta.mkdir()
    (meta / "METADATA").write_text("Metadata-Version: 2.1\nName: openclaw-runtime\nVersion: 1\n")
    monkeypatch.setattr(sys, "path", [str(tmp_path), *sys.path])
    monkeypatch.setattr(sys, "prefix", str(tmp_path))
    monkeypatch.setattr("openclaw.core.installed.find_spec", lambda name: object())  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    return tmp_path


def came_from(site: Path, facts: dict[str, Any]) -> None:
    (site / "openclaw_runtime-1.dist-info/direct_url.json").write_text(json.dumps(facts))


@pytest.mark.usefixtures("site")
def test_from_an_index_it_is_asked_for_by_name() -> None:
    assert install_command("aws") == f'{sys.executable} -m pip install "openclaw-runtime[aws]"'


def test_a_wheel_is_installed_again_with_the_extra(site: Path) -> None:
    came_from(site, {"url": WHEEL, "archive_info": {}})
    assert install_command("aws").endswith(f'install "openclaw-runtime[aws] @ {WHEEL}"')


def test_a_checkout_stays_one(site: Path) -> None:
    came_from(site, {"url": "file:///home/me/open%20claw", "dir_info": {"editable": True}})
    assert install_command("aws").endswith('pip install -e "/home/me/open claw[aws]"')


def test_a_checkout_without_pip_is_told_of_its_own_uv(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw.core.installed.find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    (site / "scripts").mkdir()
    (site / "scripts/uv").touch()
    came_from(site, {"url": site.as_uri(), "dir_info": {"editable": True}})
    assert install_command("aws").startswith(f"{site}/scripts/uv pip install --python ")


def test_a_tool_of_uv_keeps_the_extras_that_it_has(site: Path) -> None:
    came_from(site, {"url": WHEEL, "archive_info": {}})
    (site / "uv-receipt.toml").write_text(
        f'[tool]\nrequirements = [{{ name = "openclaw-runtime", extras = ["local"], path = "{WHEEL}" }}]\n'
    )
    wanted = f'uv tool install --force "openclaw-runtime[google,local] @ {WHEEL}"'
    assert install_command("google") == wanted


def test_pipx_and_an_environment_without_pip_get_their_own_commands(
    site: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw.core.installed.find_spec", lambda name: None)  # pyright: ignore[reportUnknownLambdaType, reportUnknownArgumentType]
    assert install_command("aws").startswith(f"uv pip install --python {sys.executable} ")
    (site / "pipx_metadata.json").write_text("{}")
    assert install_command("aws") == 'pipx install --force "openclaw-runtime[aws]"'
