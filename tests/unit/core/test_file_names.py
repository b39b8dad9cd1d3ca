"""No text that somebody else chose becomes part of a path."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from openclaw.config.paths import StatePaths
from openclaw.core.file_names import FileName, OwnDirectory
from openclaw.media.stored_files import AttachmentFiles

ROOT = Path(__file__).parents[3]
ELSEWHERE = [
    "",
    ".",
    "..",
    "../x",
    "a/b",
    "/etc/passwd",
    "a\\b",
    "a\0b",
    "a\nb",
    ".hidden",
    "x" * 300,
]
WRONG = """
from pathlib import Path
from openclaw.agent.tools.checkpoints import Checkpoints
from openclaw.config.paths import StatePaths
from openclaw.core.file_names import OwnDirectory
from openclaw.mcp_client.bridge.results import directory_for

def wrong(paths: StatePaths, given: str) -> None:
    paths.undo / given
    paths.memory / given
    OwnDirectory(Path("/")).subdirectory(given)
    Checkpoints(paths.cache)
    directory_for(paths.cache, given, given)
"""


@pytest.mark.parametrize("text", ELSEWHERE)
def test_text_that_leads_elsewhere_is_no_name(text: str) -> None:
    with pytest.raises(ValueError, match="not a name"):
        FileName(text)
    assert FileName(str(FileName.for_parts(text))) == FileName.for_parts(text)


def test_a_directory_of_ours_takes_no_text(tmp_path: Path) -> None:
    ours = StatePaths(tmp_path).undo
    with pytest.raises(AttributeError):
        _ = ours / "x"  # pyright: ignore[reportOperatorIssue, reportUnknownVariableType] - it is what must be refused
    assert ours / FileName.for_parts("../../x") != ours / FileName.for_parts("x")
    assert (ours / FileName.random()).parent == ours.path


def test_an_attachment_is_asked_for_by_its_digest_alone(tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"x")
    files = AttachmentFiles(tmp_path / "media")
    digest = files.keep("s", b"data")
    assert files.read("s", digest) == b"data"
    for given in ELSEWHERE:
        assert files.read("s", given) is None
        with pytest.raises(ValueError, match="not a name"):
            files.read(given, digest)


@pytest.mark.skipif(shutil.which("pyright", path=Path(sys.executable).parent) is None, reason="?")
def test_the_type_checker_refuses_text_in_a_path_of_ours(tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG)
    command = [Path(sys.executable).parent / "pyright", "--pythonpath", sys.executable]
    done = subprocess.run(
        [*command, tmp_path / "wrong.py"], capture_output=True, text=True, cwd=ROOT, check=False
    )
    lines = {int(line.split(":")[1]) for line in done.stdout.splitlines() if " - error: " in line}
    assert lines == {9, 10, 11, 12, 13}, done.stdout
    assert OwnDirectory(tmp_path) / FileName("a") == tmp_path / "a"
