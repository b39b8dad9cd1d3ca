"""The ordinary texts that the detector learns from are gathered as the script says."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).parents[2] / "training/gather_ordinary.py"
LINE = "This line is long enough that it is hardly in two texts by mere chance, number {}.\n"

pytestmark = pytest.mark.subprocess


def text(name: str) -> str:
    return "".join(LINE.format(f"{name}-{n}") for n in range(8))


def gather(out: Path, *arguments: str) -> list[str]:
    subprocess.run([sys.executable, str(SCRIPT), str(out), *arguments], check=True)
    return [json.loads(line)["text"] for line in out.read_text().splitlines()]


def git(place: Path, *arguments: str) -> None:
    who = ("-c", "user.name=a", "-c", "user.email=a@example.org")
    subprocess.run(["git", "-C", str(place), *who, *arguments], check=True, capture_output=True)


def test_a_directory_and_a_bare_repository_are_read_the_same_way_twice(tmp_path: Path) -> None:
    tree, bare, plain = tmp_path / "tree", tmp_path / "bare", tmp_path / "plain"
    for place, name in ((tree, "committed"), (plain, "plain")):
        place.mkdir()
        (place / "notes.md").write_text(text(name))
        (place / "picture.png").write_text(text("picture"))
        (place / "odd.txt").write_bytes(b"\0" * 500)
    git(tree, "init", "-q")
    git(tree, "add", ".")
    git(tree, "commit", "-q", "-m", "A message in the log.")
    git(tmp_path, "clone", "-q", "--bare", str(tree), str(bare))
    found = gather(tmp_path / "out", str(bare), str(plain))
    assert any("committed-" in one for one in found)
    assert any("A message in the log." in one for one in found)
    assert any("plain-" in one for one in found)
    assert not any("picture" in one or "\0" in one for one in found)
    assert gather(tmp_path / "again", str(bare), str(plain)) == found


def test_what_the_detector_is_measured_on_is_not_learnt(tmp_path: Path) -> None:
    place = tmp_path / "place"
    place.mkdir()
    for name in ("kept", "measured"):
        (place / f"{name}.md").write_text(text(name))
    apart = tmp_path / "set.jsonl"
    apart.write_text(json.dumps({"text": text("measured")}) + "\n")
    (found,) = gather(tmp_path / "out", str(place), "--apart", str(apart))
    assert "kept-" in found
