"""When something is due, over years, time zones and clock changes."""

import json
import subprocess
import sys
from collections import Counter
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import anyio.lowlevel
import pytest

from openclaw.agent.schedules import Job, JobFile, Scheduler, describe_job, new_job, parse_when
from openclaw.agent.tools.base import NativeTools
from openclaw.agent.tools.planning import cron_tool
from openclaw.config.schema import CronConfig
from openclaw.core.content import text_of
from openclaw.core.errors import InvalidRequest, NotFound
from openclaw.core.tools import CallContext

DAY_MS = 86_400_000
NOON = 1_794_916_800_000  # 2026-11-17 12:00 UTC, a Tuesday


class Held:
    """A clock that a test moves."""

    def __init__(self, now: int = NOON) -> None:
        self.now = now

    def now_ms(self) -> int:
        return self.now

    def monotonic(self) -> float:
        return self.now / 1000


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("weekdays 8:00", {"cron": "0 8 * * 1-5"}),
        ("every weekday at 8:00", {"cron": "0 8 * * 1-5"}),
        ("Every day at 7am", {"cron": "0 7 * * *"}),
        ("daily 12am", {"cron": "0 0 * * *"}),
        ("mondays 9:30 pm", {"cron": "30 21 * * 1"}),
        ("weekends at 10:05", {"cron": "5 10 * * 6,0"}),
        ("every 15 minutes", {"cron": "*/15 * * * *"}),
        ("every minute", {"cron": "* * * * *"}),
        ("every 2 hours", {"cron": "0 */2 * * *"}),
        ("hourly", {"cron": "0 * * * *"}),
        ("*/30 9-17 * * mon-fri", {"cron": "*/30 9-17 * * MON-FRI"}),
        ("2026-12-01 09:00", {"at": "2026-12-01T09:00:00"}),
    ],
)
def test_times_are_cron_expressions_or_plain_words(text: str, expected: dict[str, str]) -> None:
    assert parse_when(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "soon", "", "every other friday at noon", "every 7 minutes", "every 0 hours", "daily 25:00",
        "daily 13pm", "daily 0am", "monthly 6:00", "99 * * * *", "* * * *", "2026-13-01 09:00",
        "8:00 weekdays", "every monday",
    ],
)  # fmt: skip
def test_what_could_be_misunderstood_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest):
        parse_when(text)


@pytest.mark.parametrize(
    ("text", "says", "hint"),
    [
        ("every 7 minutes", "7 minutes do not divide an hour evenly", "such as */7 * * * *"),
        ("every 5 hours", "5 hours do not divide a day evenly", "such as 0 */5 * * *"),
        ("every 90 minutes", "90 minutes do not divide an hour evenly", ""),
        ("2020-01-01 09:00", "'2020-01-01 09:00' is in the past", ""),
    ],
)
def test_why_a_time_is_refused_is_said_with_a_way_out(text: str, says: str, hint: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        new_job(text, "look", "UTC", 1_800_000_000_000)
    assert says in refused.value.message
    assert (refused.value.hint or "").endswith(hint)


def scheduler(tmp_path: Path, clock: Held, jobs: list[Job], **settings: Any) -> Scheduler:
    file = JobFile(tmp_path / "cron")
    for job in jobs:
        file.add(job)

    async def nobody(context: Any) -> Any:
        raise AssertionError

    return Scheduler(file, lambda: CronConfig(**settings), nobody, clock, {}, nobody)


@pytest.mark.parametrize(
    ("zone", "hour", "minute"),
    [
        ("Europe/Berlin", 8, 0),
        ("Europe/Berlin", 2, 30),  # does not exist once a year, and exists twice once a year
        ("America/New_York", 2, 0),
        ("America/New_York", 1, 30),
        ("Australia/Lord_Howe", 2, 15),  # a change of half an hour
        ("Asia/Kathmandu", 23, 59),
        ("UTC", 0, 0),
    ],
)
def test_a_daily_schedule_runs_once_a_day_for_years(
    zone: str, hour: int, minute: int, soaking: bool
) -> None:
    length = 10_000 if soaking else 800
    start = datetime(2000, 1, 1, 12, tzinfo=ZoneInfo(zone))
    begun = int(start.timestamp() * 1000)
    job = Job("j", "", "m", zone, begun, cron=f"{minute} {hour} * * *")
    days: Counter[str] = Counter()
    wrong: list[datetime] = []
    now = begun
    last = 0
    while now < begun + length * DAY_MS:
        following = job.next(now)
        assert following is not None
        now = following
        assert job.due(now) == now  # what is next is due when it is reached, and not before
        assert job.due(now - 1) in (None, last)
        last = now
        local = datetime.fromtimestamp(now / 1000, ZoneInfo(zone))
        days[f"{local:%Y-%m-%d}"] += 1
        if (local.hour, local.minute) != (hour, minute):
            wrong.append(local)
    assert set(days.values()) == {1}
    first, final = min(days), max(days)
    span = datetime.fromisoformat(final) - datetime.fromisoformat(first)
    assert len(days) == span.days + 1 >= length - 1
    # Where the time does not exist, it runs right after the gap, and at no other time.
    assert all(
        abs(local - local.replace(hour=hour, minute=minute)) <= timedelta(hours=1)
        for local in wrong
    )
    changing = zone in ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
    assert len(wrong) <= (length // 365 + 1 if changing else 0)


def test_a_clock_that_stands_still_or_jumps_starts_nothing_twice(tmp_path: Path) -> None:
    clock = Held()
    job = new_job("every 15 minutes", "m", "UTC", NOON, id="j")
    one = scheduler(tmp_path, clock, [job])
    assert one.due(NOON) == []
    clock.now += 15 * 60_000
    assert one.due(NOON) == [(job, clock.now)]
    assert one.due(NOON) == []
    clock.now += 30 * 60_000  # asleep: the last of two that were missed
    assert one.due(NOON) == [(job, clock.now)]
    clock.now -= 5 * 60_000  # set back
    again = one.due(NOON)
    clock.now += 5 * 60_000
    ids = [job.run_id(due) for _, due in [*again, *one.due(NOON)]]
    assert ids == [f"cron-j-{(NOON + 1_800_000) // 1000}", f"cron-j-{(NOON + 2_700_000) // 1000}"]


class Stop(Exception):
    pass


async def test_a_clock_that_is_set_back_by_a_day_or_forward_holds_no_schedule_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each time is begun once; its run has its time in its id, so it happens once, too."""
    clock = SetClock()
    job = new_job("every 15 minutes", "m", "UTC", NOON, id="j")
    one = scheduler(tmp_path, clock, [job])
    day = DAY_MS // 60_000
    minutes = iter([1, 14, -day, 5, 10, day, 15])
    begun: list[int] = []

    async def pause(seconds: float) -> None:
        await anyio.lowlevel.checkpoint()
        step = next(minutes, None)
        if step is None:
            raise Stop
        clock.wall += step * 60_000
        clock.passed += step * 60.0 if abs(step) < day else 1.0

    monkeypatch.setattr("openclaw.agent.schedules.anyio.sleep", pause)

    def look(self: Scheduler, started_ms: int, group: Any) -> None:
        begun.extend((due - NOON) // 60_000 for _, due in self.due(started_ms))

    monkeypatch.setattr(Scheduler, "look", look)
    with pytest.raises(BaseExceptionGroup):  # the Stop
        await one.run()
    assert begun == [15, 15 - day, 30 - day, 30, 45]


def test_a_clock_that_is_set_back_makes_up_for_no_run_before_the_schedule_existed(
    tmp_path: Path,
) -> None:
    clock = SetClock()
    one = scheduler(tmp_path, clock, [new_job("every day at 8am", "m", "UTC", NOON, id="j")])
    assert one.due(NOON) == []
    clock.wall = NOON - DAY_MS  # four hours after the day before's run would have been due
    assert one.due(NOON - DAY_MS) == []
    clock.wall = NOON - DAY_MS + 20 * 3_600_000
    assert [due for _, due in one.due(NOON - DAY_MS)] == [clock.wall]


class SetClock(Held):
    """A clock of which a test sets the wall time, while the other goes on."""

    def __init__(self) -> None:
        self.wall, self.passed = NOON, 0.0

    def now_ms(self) -> int:
        return self.wall

    def monotonic(self) -> float:
        return self.passed


@pytest.mark.parametrize(("missed", "runs"), [("run", 1), ("skip", 0)])
def test_runs_that_nobody_made_are_made_up_for_once_or_skipped(
    tmp_path: Path, missed: str, runs: int
) -> None:
    job = new_job("every 15 minutes", "m", "UTC", NOON, id="j")
    clock = Held(NOON + 3 * DAY_MS + 60_000)
    assert len(scheduler(tmp_path, clock, [job], missed=missed).due(clock.now)) == runs


def test_what_is_paused_off_or_over_does_not_run(tmp_path: Path) -> None:
    clock = Held()
    once = new_job("2026-11-17 13:00", "m", "UTC", NOON, id="once")
    often = new_job("every 15 minutes", "m", "UTC", NOON, id="often")
    one = scheduler(tmp_path, clock, [once, often])
    one.jobs.pause("often", True, clock.now)
    clock.now += 3_600_000
    assert [job.id for job, _ in one.due(NOON)] == ["once"]
    assert once.next(clock.now) is None
    clock.now += DAY_MS
    one.jobs.pause("often", False, clock.now)
    assert one.due(NOON) == []  # neither again, nor what was missed while paused
    assert "over" in describe_job(once, clock.now)
    off = scheduler(tmp_path / "off", clock, [often], enabled=False)
    assert off.due(NOON) == []


def test_the_file_is_private_readable_and_may_be_broken(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = JobFile(tmp_path / "cron")
    file.add(new_job("hourly", "Look.", "UTC", NOON, id="j"))
    assert file.path.stat().st_mode & 0o777 == 0o600
    assert json.loads(file.path.read_text())["jobs"][0]["message"] == "Look."
    with pytest.raises(InvalidRequest, match="a schedule 'j' already exists"):
        file.add(new_job("hourly", "Look.", "UTC", NOON, id="j"))
    with pytest.raises(NotFound):
        file.remove("other")
    file.path.write_text("{")
    one = scheduler(tmp_path, Held(), [])
    assert (one.due(0), one.due(0)) == ([], [])
    assert caplog.text.count("the schedules cannot be read") == 1


@pytest.mark.parametrize(
    ("when", "message", "zone", "id"),
    [
        ("hourly", " ", "UTC", None),
        ("hourly", "m", "Mars/Base", None),
        ("2020-01-01 09:00", "m", "UTC", None),
        ("hourly", "m", "UTC", "../x"),
    ],
)
def test_what_makes_no_sense_is_refused(
    tmp_path: Path, when: str, message: str, zone: str, id: str | None
) -> None:
    with pytest.raises(InvalidRequest):
        JobFile(tmp_path).add(new_job(when, message, zone, NOON, id=id))


ADD = """
import sys
from pathlib import Path
from openclaw.agent.schedules import JobFile, new_job
sys.stdin.read()
for number in range(20):
    job = new_job("every hour", "hi", "UTC", 0, id=f"{sys.argv[2]}-{number}")
    JobFile(Path(sys.argv[1])).add(job)
"""


@pytest.mark.subprocess
def test_programs_that_add_schedules_at_once_lose_none(tmp_path: Path) -> None:
    programs = [
        subprocess.Popen([sys.executable, "-c", ADD, str(tmp_path), name], stdin=subprocess.PIPE)
        for name in ("a", "b", "c")
    ]
    for program in programs:
        assert program.stdin is not None
        program.stdin.close()  # which lets it begin
    assert [program.wait() for program in programs] == [0, 0, 0]
    assert len(JobFile(tmp_path).read()) == 60


async def test_the_agent_adds_lists_and_removes_schedules(tmp_path: Path) -> None:
    tools = NativeTools([cron_tool(JobFile(tmp_path), Held(), "Europe/Berlin")])

    async def call(**arguments: str) -> str:
        return text_of((await tools.call("cron", arguments, CallContext("main", "s", "c"))).blocks)

    assert await call(action="list") == "No schedules."
    said = await call(action="add", when="weekdays 8:00", message="News?", name="news")
    assert "next 2026-11-18 08:00 CET: News?" in said
    assert "news: weekdays 8:00 (0 8 * * 1-5, Europe/Berlin)" in await call(action="list")
    assert await call(action="remove", name="news") == "Removed news."
    assert "is not understood" in await call(action="add", when="soon", message="x")
    assert "must be add, list or remove" in await call(action="change")
