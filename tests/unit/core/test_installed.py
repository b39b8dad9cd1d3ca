"""How a further part of the program is installed, for each way that the rest of it was."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from openclaw.core.installed import install_command, installation

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


def as_commands(site: Path) -> list[str]:
    how = installation()
    return [how.kind, *(" ".join(words) for words in (*how.upgrade, *how.reinstall("0.1.0")))]


def test_what_pip_installed_is_upgraded_and_brought_back_by_pip(site: Path) -> None:
    (site / "openclaw_runtime-1.dist-info/INSTALLER").write_text("pip\n")
    pip = f"{sys.executable} -m pip install"
    upgrade, again = f"{pip} --upgrade openclaw-runtime", f"{pip} openclaw-runtime==0.1.0"
    assert as_commands(site) == ["pip", upgrade, again]


def test_a_tool_of_uv_is_upgraded_by_uv_and_keeps_its_extras(site: Path) -> None:
    (site / "openclaw_runtime-1.dist-info/INSTALLER").write_text("uv\n")
    (site / "uv-receipt.toml").write_text(
        '[tool]\nrequirements = [{ name = "openclaw-runtime", extras = ["local"] }]\n'
    )
    again = "uv tool install --force openclaw-runtime[local]==0.1.0"
    assert as_commands(site) == ["uv tool", "uv tool upgrade openclaw-runtime", again]


def test_pipx_is_known_by_its_own_file(site: Path) -> None:
    (site / "openclaw_runtime-1.dist-info/INSTALLER").write_text("pip\n")
    (site / "pipx_metadata.json").write_text("{}")
    again = "pipx install --force openclaw-runtime==0.1.0"
    assert as_commands(site) == ["pipx", "pipx upgrade openclaw-runtime", again]


def test_a_checkout_is_pulled_and_set_up_and_brought_back_by_its_commit(site: Path) -> None:
    came_from(site, {"url": "file:///home/me/claw", "dir_info": {"editable": True}})
    kind, pull, setup, switch, again = as_commands(site)
    assert (kind, setup, again) == ("checkout", *["/home/me/claw/scripts/setup"] * 2)
    assert pull == "git -C /home/me/claw pull --quiet --ff-only"
    assert switch == "git -C /home/me/claw checkout --quiet 0.1.0"


def test_what_pip_copied_from_a_checkout_is_pulled_and_installed_again(site: Path) -> None:
    """Not asked of an index: the README installs from a checkout, and the index may not have it."""
    (site / "openclaw_runtime-1.dist-info/INSTALLER").write_text("pip\n")
    checkout = site / "a claw"
    (checkout / ".git").mkdir(parents=True)
    came_from(site, {"url": checkout.as_uri(), "dir_info": {}})
    kind, pull, install, switch, again = as_commands(site)
    pip = f"{sys.executable} -m pip install openclaw-runtime @ {checkout.as_uri()}"
    assert (kind, install, again) == ("copy of a checkout", pip, pip)
    assert pull == f"git -C {checkout} pull --quiet --ff-only"
    assert switch == f"git -C {checkout} checkout --quiet 0.1.0"


def test_a_single_file_and_a_container_are_replaced_by_hand(site: Path) -> None:
    assert (installation().kind, installation().upgrade) == ("single file", ())
    (site / "openclaw-image").touch()
    assert (installation().kind, installation().upgrade) == ("container", ())
