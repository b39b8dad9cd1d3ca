import subprocess
import sys
from pathlib import Path

from scripts.record_handshake import source

from openclaw.mcp_server import recorded_handshake


async def test_the_recorded_answers_are_what_the_sdk_answers() -> None:
    ruff = Path(sys.executable).with_name("ruff")
    fresh = subprocess.run(
        [ruff, "format", "--isolated", "--line-length", "100", "-"],
        input=await source(),
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert fresh == Path(recorded_handshake.__file__).read_text(encoding="utf-8"), (
        "run scripts/record-answers"
    )
