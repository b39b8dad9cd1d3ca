"""No script leaves the sandbox, exceeds its limits or stops the event loop."""

import os
from collections.abc import Iterator
from pathlib import Path

import anyio
import pytest
from tests.hostile.code_attempts import ATTEMPTS
from tests.support.code_kit import Tools

from openclaw.agent.toolpath.run_code import ScriptLimits, ScriptRunner

PARTS = 8
SECRET = "canary-5f1d9c"
LIMITS = ScriptLimits(run_seconds=0.5, memory_bytes=32 << 20, calls=20, total_seconds=60)
MOST_RESIDENT = 96 << 10
"""KiB: the script's memory, one copy of it on the way out, and the worker itself."""


@pytest.fixture
def secret_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("OPENCLAW_CANARY", SECRET)
    path = tmp_path / "secret"
    path.write_text(SECRET)
    return path


def workers() -> Iterator[Path]:
    """The processes of monty that this process started."""
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            text = status.read_text()
        except OSError:
            continue
        if text.startswith("Name:\tmonty\n") and f"\nPPid:\t{os.getpid()}\n" in text:
            yield status


def peak(status: Path) -> int:
    try:
        lines = status.read_text().splitlines()
    except OSError:
        return 0
    return next((int(line.split()[1]) for line in lines if line.startswith("VmHWM")), 0)


async def watch(peaks: list[int]) -> None:
    """One entry for each turn that the event loop gives us while a script runs."""
    while True:
        peaks.append(max(map(peak, workers()), default=0))
        await anyio.sleep(0.02)


@pytest.mark.parametrize("part", range(PARTS))
async def test_no_attempt_escapes_or_exhausts_the_host(
    part: int, secret_file: Path, tmp_path: Path
) -> None:
    peaks = list[int]()
    runner = ScriptRunner(LIMITS, at_once=4)
    async with anyio.create_task_group() as watching:
        watching.start_soon(watch, peaks)
        async with anyio.create_task_group() as group:
            for number, attempt in enumerate(ATTEMPTS[part::PARTS]):
                marker = tmp_path / f"marker-{number}"
                group.start_soon(held, attempt, runner, secret_file, marker)
        watching.cancel_scope.cancel()
    assert max(peaks) <= MOST_RESIDENT
    assert len(peaks) > 3, "the event loop stood still while scripts ran"


async def held(attempt: str, runner: ScriptRunner, secret_file: Path, marker: Path) -> None:
    source = attempt.replace("{secret_file}", str(secret_file)).replace("{marker}", str(marker))
    source = source.replace("{secret_name}", "OPENCLAW_CANARY")
    tools = Tools()
    outcome = await tools.run(source, runner)
    text = outcome.text()
    assert SECRET not in text, attempt
    assert secret_file.read_text() == SECRET, attempt
    assert not marker.exists(), attempt
    assert {name for name, _ in tools.made} <= {"echo", "deny", "big"}, attempt
    assert len(tools.made) == len(outcome.calls) <= LIMITS.calls, attempt
    assert len(text) <= LIMITS.output_chars + 5_000, attempt


async def test_after_all_attempts_a_plain_script_still_runs() -> None:
    assert (await Tools().run("await echo(text='ok')")).text() == '{"text": "ok"}'
