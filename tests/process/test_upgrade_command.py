"""`openclaw upgrade` in an environment that pip made: it checks first, and goes back."""

import json
import os
import shutil
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from pathlib import Path

import pytest

from openclaw.cli.build_version import version_text
from openclaw.config.state_backup import backups
from openclaw.version import __version__

ROOT = Path(__file__).parents[2]
NEWER = "0.9.0"
MIGRATION = """
def _second(files: Path) -> None:
    (files / "cron" / "jobs.json").rename(files / "cron" / "schedules.json")


MIGRATIONS: tuple[Migration, ...] = (_second,)
"""

pytestmark = pytest.mark.subprocess


def build(source: Path, target: Path) -> None:
    command = [ROOT / "scripts" / "uv", "build", "--quiet", "--wheel", "--out-dir", target, source]
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """This version, and a newer one that moves the schedules."""
    place = tmp_path_factory.mktemp("wheels")
    build(ROOT, place / "old")
    source = tmp_path_factory.mktemp("newer")
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copytree(ROOT / "man", source / "man")
    (source / "scripts").mkdir()
    shutil.copy(ROOT / "scripts/build_hook.py", source / "scripts")
    version = source / "src/openclaw/version.py"
    version.write_text(version.read_text().replace(__version__, NEWER))
    module = source / "src/openclaw/config/state_version.py"
    before, _, rest = module.read_text().partition("MIGRATIONS: tuple[Migration, ...] = ()")
    assert rest
    module.write_text(before + MIGRATION + rest.partition("\n")[2])
    build(source, place / "new")
    for wheel in (place / "old").glob("*.whl"):
        shutil.copy(wheel, place / "new")
    return place


@dataclass(frozen=True)
class Machine:
    home: Path
    venv: Path
    wheels: Path

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [self.venv / "bin" / "openclaw", *words],
            capture_output=True,
            text=True,
            stdin=subprocess.DEVNULL,
            env=self.environ(),
            cwd=self.project,
            check=False,
        )

    def environ(self) -> dict[str, str]:
        return {
            "HOME": str(self.home),
            "PATH": os.environ["PATH"],
            "PIP_NO_INDEX": "1",
            "PIP_NO_DEPS": "1",
            "PIP_FIND_LINKS": str(self.wheels / "new"),
        }

    @property
    def project(self) -> Path:
        """The current directory, with modules of the names that an upgrade uses."""
        directory = self.home / "project"
        directory.mkdir(exist_ok=True)
        for name in ("pip", "openclaw"):
            (directory / f"{name}.py").write_text(f"open({str(self.proof)!r}, 'w').close()\n")
        return directory

    @property
    def proof(self) -> Path:
        return self.home / "the module of the current directory ran"

    @property
    def state(self) -> Path:
        return self.home / ".openclaw"


@pytest.fixture(scope="module")
def venv(wheels: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the old version. Its dependencies are those that are installed here."""
    venv = tmp_path_factory.mktemp("installed") / "venv"
    subprocess.run([sys.executable, "-m", "venv", venv], check=True)
    (wheel,) = (wheels / "old").glob("*.whl")
    machine = Machine(venv.parent, venv, wheels)
    install = [machine.venv / "bin" / "python", "-m", "pip", "install", "--quiet", wheel]
    subprocess.run(install, check=True, env=machine.environ())
    (site,) = machine.venv.glob("lib/python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    record = next(machine.venv.glob("lib/python*/site-packages/openclaw_runtime-*/direct_url.json"))
    record.unlink()  # as from an index
    return venv


@pytest.fixture
def machine(venv: Path, wheels: Path, tmp_path: Path) -> Machine:
    home = tmp_path / "empty home"
    home.mkdir()
    return Machine(home, venv, wheels)


def test_it_shows_upgrades_checks_and_goes_back(machine: Machine) -> None:
    assert machine.run("cron", "add", "weekdays 8:00", "Hi", "--name", "hi").returncode == 0
    jobs = (machine.state / "cron" / "jobs.json").read_text()
    shown = json.loads(machine.run("upgrade", "--json").stdout)
    python = str(machine.venv / "bin" / "python")
    assert shown["kind"] == "pip"
    assert shown["commands"] == [[python, "-m", "pip", "install", "--upgrade", "openclaw-runtime"]]
    assert not backups(machine.state)

    done = machine.run("upgrade", "--yes")
    assert done.stdout.startswith(f"Upgraded from {version_text()} to {NEWER}."), done.stderr
    migrated = machine.run("skills")
    assert "was migrated from version 1 to 2; a backup is in" in migrated.stderr
    assert (machine.state / "cron" / "schedules.json").read_text() == jobs

    undone = machine.run("upgrade", "--undo", "--yes")
    assert undone.returncode == 0, undone.stderr
    assert machine.run("--version").stdout == f"openclaw {version_text()}\n"
    assert (machine.state / "cron" / "jobs.json").read_text() == jobs
    assert not (machine.state / "cron" / "schedules.json").exists()
    assert "Hi" in machine.run("cron", "list").stdout
    assert not machine.proof.exists()


def test_a_new_version_that_cannot_use_the_state_is_taken_back(machine: Machine) -> None:
    machine.state.mkdir(mode=0o700)
    (machine.state / "pins.json").write_text('{"format": 1, "servers": {}}')  # and no schedules
    done = machine.run("upgrade", "--yes")
    assert done.returncode == 1
    assert "Not upgraded: " in done.stderr
    assert "schedules.json" in done.stderr
    assert machine.run("--version").stdout == f"openclaw {version_text()}\n"
    assert not (machine.state / "version.json").exists()
