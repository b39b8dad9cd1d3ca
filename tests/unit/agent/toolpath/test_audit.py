import errno
import json
import logging
import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import anyio
import anyio.lowlevel
import pytest

from openclaw.agent.toolpath import audit
from openclaw.agent.toolpath.audit import AuditLog, CallRecord
from openclaw.config.schema import AuditConfig
from openclaw.core.content import Media, Text
from openclaw.secrets.redactor import Redactor


@pytest.fixture
def redactor() -> Redactor:
    redactor = Redactor()
    redactor.register("swordfish-and-chips")
    return redactor


def opened(path: Path, redactor: Redactor, **options: Any) -> AuditLog:
    return AuditLog(path, redactor, AuditConfig(**options))


def write(log: AuditLog, result: str = "found swordfish-and-chips", **changes: Any) -> None:
    call = CallRecord(
        at_ms=1_794_775_287_123,
        agent="main",
        session="s-1",
        call_id="c",
        server="docs",
        tool="search",
        arguments={"q": "swordfish-and-chips"},
        outcome="ok",
        duration_ms=12.3456,
        blocks=(Text(result),),
    )
    log.record(call._replace(**changes))


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_record_has_who_what_how_long_and_how_much_but_no_bodies(
    tmp_path: Path, redactor: Redactor
) -> None:
    path = tmp_path / "state" / "audit.jsonl"
    log = opened(path, redactor)
    write(log, blocks=(Text("done"), Media("image/png", data=bytes(4000))))
    assert lines(path) == [
        {
            "time": "2026-11-15T20:41:27.123Z",
            "timeMs": 1_794_775_287_123,
            "agent": "main",
            "session": "s-1",
            "call": "c",
            "server": "docs",
            "tool": "search",
            "durationMs": 12.346,
            "outcome": "ok",
            "argumentBytes": 27,
            "resultBytes": 4004,
        }
    ]
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700


def test_bodies_are_redacted_and_capped_where_they_are_wanted(
    tmp_path: Path, redactor: Redactor
) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, redactor, bodies=True)
    write(log, result="x" * 100_000, tool="swordfish-and-chips\nforged")
    write(log)
    first, second = lines(path)
    assert len(first["result"]) == 16 * 1024 + 1
    assert first["tool"] == "[REDACTED]\nforged"
    assert second["arguments"] == '{"q":"[REDACTED]"}'
    assert second["result"] == "found [REDACTED]"


def test_a_file_that_was_open_to_others_is_closed_to_them(
    tmp_path: Path, redactor: Redactor
) -> None:
    path = tmp_path / "audit.jsonl"
    path.touch(mode=0o644)
    log = opened(path, redactor)
    write(log)
    assert path.stat().st_mode & 0o777 == 0o600


@pytest.mark.parametrize(("keep", "files"), [(2, 3), (0, 1)])
def test_a_full_file_makes_room(tmp_path: Path, redactor: Redactor, keep: int, files: int) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, redactor, max_bytes=1000, keep=keep)
    for number in range(40):
        write(log, tool=f"t{number}")
    found = [p for p in tmp_path.iterdir() if p.suffix != ".lock" and p.is_file()]
    assert len(found) == files
    assert all(p.stat().st_size <= 1000 and p.stat().st_mode & 0o777 == 0o600 for p in found)
    assert lines(path)[-1]["tool"] == "t39"


def test_a_full_file_that_seems_another_each_time_is_appended_to(
    tmp_path: Path, redactor: Redactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("os.path.samestat", Mock(return_value=False))
    path = tmp_path / "audit.jsonl"
    log = opened(path, redactor, max_bytes=300)
    for number in range(5):
        write(log, tool=f"t{number}")
    assert [line["tool"] for line in lines(path)] == ["t0", "t1", "t2", "t3", "t4"]


def test_a_file_that_was_moved_away_is_started_afresh(tmp_path: Path, redactor: Redactor) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, redactor)
    write(log, tool="before")
    path.rename(tmp_path / "moved")
    write(log, tool="after")
    assert [line["tool"] for line in lines(path)] == ["after"]


def test_a_log_that_cannot_be_written_costs_one_warning_and_no_call(
    tmp_path: Path, redactor: Redactor, caplog: pytest.LogCaptureFixture
) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    log = opened(blocked / "audit.jsonl", redactor)
    with caplog.at_level(logging.WARNING):
        write(log)
        write(log)
    assert len([r for r in caplog.records if "cannot be written" in r.getMessage()]) == 1
    blocked.unlink()
    write(log)
    assert len(lines(blocked / "audit.jsonl")) == 1


def test_a_file_that_failed_is_opened_again(
    tmp_path: Path, redactor: Redactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, redactor)
    for call in ("fchmod", "write"):
        with monkeypatch.context() as patch:
            patch.setattr(os, call, Mock(side_effect=OSError(errno.EPERM, "no")))
            write(log)
            write(log)
        write(log, tool=call)
    assert [one["tool"] for one in lines(path)] == ["fchmod", "write"]


def test_what_a_server_says_cannot_break_a_line_or_control_a_terminal(
    tmp_path: Path, redactor: Redactor
) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, redactor, bodies=True)
    write(log, result="a\u2028b\x9b31m\u202ec", tool="né")
    assert path.read_bytes().isascii()
    [line] = lines(path)
    assert (line["result"], line["tool"]) == ("a\u2028b\x9b31m\u202ec", "né")


def test_a_link_is_not_followed(tmp_path: Path, redactor: Redactor) -> None:
    target = tmp_path / "target"
    path = tmp_path / "audit.jsonl"
    path.symlink_to(target)
    write(opened(path, redactor))
    assert not target.exists()


@pytest.mark.subprocess
def test_several_processes_lose_nothing_and_mix_nothing(tmp_path: Path) -> None:
    program = textwrap.dedent("""
        import sys
        from pathlib import Path
        from openclaw.agent.toolpath.audit import AuditLog, CallRecord
        from openclaw.config.schema import AuditConfig
        from openclaw.secrets.redactor import Redactor
        log = AuditLog(Path(sys.argv[1]), Redactor(), AuditConfig(max_bytes=20_000, keep=50))
        for number in range(300):
            log.record(CallRecord(0, "a", sys.argv[2], "c", "s", str(number), {}, "ok", 1.0))
    """)
    path = tmp_path / "audit.jsonl"
    children = [
        subprocess.Popen([sys.executable, "-c", program, str(path), str(number)])
        for number in range(3)
    ]
    assert [child.wait(timeout=60) for child in children] == [0, 0, 0]
    seen = [
        (line["session"], line["tool"])
        for file in tmp_path.glob("audit.jsonl*")
        if file.suffix != ".lock"
        for line in lines(file)
    ]
    assert sorted(seen) == sorted((str(n), str(t)) for n in range(3) for t in range(300))
    assert len(list(tmp_path.glob("audit.jsonl*"))) > 3


def about_to_be_sent(number: int) -> CallRecord:
    return CallRecord(0, "main", "s-1", f"c{number}", "docs", "search", {"q": number}, "started", 0)


async def test_a_call_is_on_disk_before_it_is_sent_and_calls_that_begin_together_share_a_sync(
    tmp_path: Path, redactor: Redactor, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced = tmp_path / "audit.jsonl", list[int]()

    def sync(file: int) -> None:
        synced.append(os.fstat(file).st_size)

    monkeypatch.setattr(audit, "_write_to_disk", sync)
    log = opened(path, redactor)

    async def begin(number: int) -> None:
        await log.begin(about_to_be_sent(number))
        assert f'"call":"c{number}"' in path.read_text()
        assert synced[-1] == path.stat().st_size

    async with anyio.create_task_group() as calls:
        for number in range(16):
            calls.start_soon(begin, number)
    assert len(synced) <= 2
    assert sorted(line["call"] for line in lines(path)) == sorted(f"c{n}" for n in range(16))
    assert {line["outcome"] for line in lines(path)} == {"started"}


async def test_a_call_whose_record_cannot_be_written_is_made_anyway(
    tmp_path: Path, redactor: Redactor, caplog: pytest.LogCaptureFixture
) -> None:
    (tmp_path / "file").write_text("not a directory")
    await opened(tmp_path / "file" / "audit.jsonl", redactor).begin(about_to_be_sent(1))
    assert "cannot be written" in caplog.text


async def test_what_one_step_records_is_written_right_after_it(
    tmp_path: Path, redactor: Redactor
) -> None:
    path = tmp_path / "audit.jsonl"
    log = opened(path, redactor, max_bytes=1000)
    for number in range(20):
        write(log, tool=f"t{number}")
    assert not path.exists()
    await anyio.lowlevel.checkpoint()
    found = [
        line
        for file in sorted(tmp_path.glob("audit.jsonl.?"), reverse=True)
        for line in lines(file)
    ]
    assert [line["tool"] for line in [*found, *lines(path)]] == [f"t{n}" for n in range(20)]
    assert all(file.stat().st_size <= 1000 for file in tmp_path.glob("audit.jsonl*"))
    write(log, tool="last")
    log.close()
    assert lines(path)[-1]["tool"] == "last"


async def test_records_are_written_even_if_the_event_loop_gets_no_turn(
    tmp_path: Path, redactor: Redactor
) -> None:
    log = opened(tmp_path / "audit.jsonl", redactor)
    for _ in range(1000):
        write(log)
    assert len(lines(tmp_path / "audit.jsonl")) == 1000


def test_a_record_is_cheap(tmp_path: Path, redactor: Redactor) -> None:
    log = opened(tmp_path / "audit.jsonl", redactor)
    write(log)
    best = min(_seconds_for_100(log) for _ in range(10))
    assert best / 100 < 0.001


def _seconds_for_100(log: AuditLog) -> float:
    started = time.process_time()
    for _ in range(100):
        write(log)
    return time.process_time() - started
