"""`openclaw gateway install` and `uninstall`, with a service manager that writes down what it is told."""

import os
from pathlib import Path

import pytest

from openclaw.cli.main import run

Captured = pytest.CaptureFixture[str]


@pytest.fixture
def manager(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What it was told; it fails as soon as there is a file `broken` beside it."""
    told = tmp_path / "bin" / "told"
    told.parent.mkdir()
    program = told.with_name("systemctl")
    program.write_text(
        f'#!/bin/sh\necho "$@" >> {told}\n[ ! -e {told.parent}/broken ] || {{ echo no bus >&2; exit 1; }}\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{program.parent}:{os.environ['PATH']}")
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    return told


def gateway(*words: str) -> int:
    return run("openclaw", ["gateway", *words, "--kind", "systemd"])


def test_a_service_is_installed_and_removed(home: Path, manager: Path, capsys: Captured) -> None:
    unit = home / ".config/systemd/user/openclaw-gateway.service"
    assert gateway("install") == 0
    assert "gateway run" in unit.read_text().replace('"', "")
    assert gateway("uninstall") == 0
    assert not unit.exists()
    assert manager.read_text().splitlines() == [
        "--user enable --now openclaw-gateway.service",
        "--user disable --now openclaw-gateway.service",
    ]
    assert gateway("uninstall") == 1
    assert "is not installed" in capsys.readouterr().err


def test_a_service_manager_that_refuses_is_quoted(
    home: Path, manager: Path, capsys: Captured
) -> None:
    manager.with_name("broken").touch()
    assert gateway("install") == 1
    said = capsys.readouterr().err
    assert "no bus" in said
    assert "openclaw gateway start" in said
    assert not (home / ".config/systemd/user/openclaw-gateway.service").exists()
