"""Schedules, in a file that a person can read and edit."""

import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo, available_timezones

from openclaw.config.paths import private_directory, write_atomically
from openclaw.core.clock import random_id
from openclaw.core.errors import InvalidRequest, NotFound

MOST_JOBS = 500
_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,63}")
_DAYS = {
    "day": "*", "daily": "*", "weekday": "1-5", "weekend": "6,0", "sunday": "0", "monday": "1",
    "tuesday": "2", "wednesday": "3", "thursday": "4", "friday": "5", "saturday": "6",
}  # fmt: skip
_ON_DAYS = re.compile(r"(?:every )?(\w+?)s?(?: at)? (\d{1,2})(?::(\d\d))? ?(am|pm)?")
_EVERY = re.compile(r"every (?:(\d{1,2}) )?(minute|hour)s?")
_AT = re.compile(r"(?:at |on )?(\d{4}-\d\d-\d\d[ T]\d{1,2}:\d\d)")


@dataclass(frozen=True, slots=True)
class Job:
    """A schedule: `cron` (an expression of five fields) or one time `at`, in `timezone`."""

    id: str
    when: str
    message: str
    timezone: str
    created_ms: int
    cron: str | None = None
    at: str | None = None
    agent: str | None = None
    session: str | None = None
    paused: bool = False

    @property
    def session_key(self) -> str:
        return self.session or f"cron:{self.id}"

    def due(self, now_ms: int) -> int | None:
        """The latest time at which it should have run, in milliseconds; None before the first."""
        latest = self._only() or _run(self.cron, self._local(now_ms + 1), reverse=True)
        return latest if self.created_ms < latest <= now_ms else None

    def next(self, now_ms: int) -> int | None:
        following = self._only() or _run(self.cron, self._local(now_ms))
        return following if following > now_ms else None

    def _only(self) -> int | None:
        if self.at is None:
            return None
        only = datetime.fromisoformat(self.at).replace(tzinfo=ZoneInfo(self.timezone))
        return int(only.timestamp() * 1000)

    def _local(self, now_ms: int) -> datetime:
        return datetime.fromtimestamp(now_ms / 1000, ZoneInfo(self.timezone))

    def run_id(self, due_ms: int) -> str:
        """The same in every process that starts this run, so that it happens once."""
        return f"cron-{self.id}-{due_ms // 1000}"


def _run(expression: str | None, start: datetime, *, reverse: bool = False) -> int:
    """The first run after `start`, or the last before it, in milliseconds."""
    from cronsim import CronSim, CronSimError

    try:
        runs = CronSim(expression or "", start, reverse=reverse)
    except CronSimError as error:
        raise InvalidRequest(f"is not a valid cron expression: {error}", field="when") from None
    return int(next(runs).timestamp() * 1000)


def parse_when(text: str) -> dict[str, str]:
    """`cron` or `at` from a cron expression or plain words; raises `InvalidRequest`.

    Only unambiguous phrases are accepted: "weekdays 8:00", "every day at 7am", "mondays 9:30",
    "every 15 minutes", "2026-12-01 09:00".
    """
    words = " ".join(text.lower().split())
    if len(words.split()) == 5 and words[0] in "*0123456789":
        _run(words.upper(), datetime.now(ZoneInfo("UTC")))
        return {"cron": words.upper()}
    if found := _AT.fullmatch(" ".join(text.split())):
        try:
            return {"at": datetime.fromisoformat(found[1]).isoformat()}
        except ValueError:
            raise InvalidRequest(f"{found[1]} is not a valid time", field="when") from None
    if found := _EVERY.fullmatch("every hour" if words == "hourly" else words):
        return {"cron": _interval(int(found[1] or 1), found[2])}
    if (found := _ON_DAYS.fullmatch(words)) and (days := _DAYS.get(found[1])) is not None:
        hour, minute, half = int(found[2]), int(found[3] or 0), found[4]
        valid = minute < 60 and (hour < 24 if half is None else 1 <= hour <= 12)
        if half is not None:
            hour = hour % 12 + (12 if half == "pm" else 0)
        if valid:
            return {"cron": f"{minute} {hour} * * {days}"}
    raise InvalidRequest(
        f"{text!r} is not understood",
        field="when",
        hint="try 'weekdays 8:00', 'every 15 minutes', '2026-12-01 09:00' or '0 8 * * 1-5'",
    )


def _interval(count: int, unit: str) -> str:
    most = 60 if unit == "minute" else 24
    if count < 1 or most % count:
        raise InvalidRequest(
            f"every {count} {unit}s does not divide evenly",
            field="when",
            hint="use a cron expression",
        )
    step = f"*/{count}" if count > 1 else "*"
    return f"{step} * * * *" if unit == "minute" else f"0 {step} * * *"


class JobFile:
    """The schedules in `jobs.json`, which every change rewrites."""

    def __init__(self, directory: Path) -> None:
        self.path = directory / "jobs.json"

    def read(self) -> dict[str, Job]:
        try:
            rows: list[Mapping[str, Any]] = json.loads(self.path.read_text())["jobs"]
            return {row["id"]: Job(**row) for row in rows}
        except FileNotFoundError:
            return {}
        except (ValueError, TypeError, KeyError) as error:
            raise InvalidRequest(f"{self.path} cannot be read: {error}") from None

    def add(self, job: Job) -> None:
        jobs = self.read()
        if not _ID.fullmatch(job.id):
            raise InvalidRequest("must be letters, digits, - and _", field="name")
        if job.id in jobs:
            raise InvalidRequest(f"a schedule '{job.id}' already exists", field="name")
        if len(jobs) >= MOST_JOBS:
            raise InvalidRequest(f"there are already {MOST_JOBS} schedules")
        self._write({**jobs, job.id: job})

    def get(self, id: str) -> Job:
        jobs = self.read()
        if id not in jobs:
            known = ", ".join(jobs) or "none"
            raise NotFound(f"there is no schedule '{id}'", hint=f"available: {known}")
        return jobs[id]

    def pause(self, id: str, paused: bool, now_ms: int) -> None:
        """Pause or continue; runs that were missed meanwhile are not made up for."""
        job = replace(self.get(id), paused=paused)
        self._write({**self.read(), id: job if paused else replace(job, created_ms=now_ms)})

    def remove(self, id: str) -> None:
        self.get(id)
        self._write({name: job for name, job in self.read().items() if name != id})

    def _write(self, jobs: Mapping[str, Job]) -> None:
        private_directory(self.path.parent)
        rows = [asdict(job) for job in jobs.values()]
        write_atomically(self.path, json.dumps({"jobs": rows}, indent=2))


def new_job(when: str, message: str, timezone: str, now_ms: int, **more: Any) -> Job:
    """A schedule; raises `InvalidRequest` for a time that is not understood or in the past."""
    if not message.strip():
        raise InvalidRequest("is empty", field="message")
    if timezone not in available_timezones():
        raise InvalidRequest(f"there is no time zone '{timezone}'", field="tz")
    id = more.pop("id", None) or random_id()[:8].replace("_", "x").replace("-", "x")
    job = Job(id, when, message, timezone, now_ms, **parse_when(when), **more)
    if job.next(now_ms) is None:
        raise InvalidRequest("is over", field="when")
    return job


def describe_job(job: Job, now_ms: int) -> str:
    following, zone, when = job.next(now_ms), ZoneInfo(job.timezone), "over"
    if job.paused:
        when = "paused"
    elif following is not None:
        when = f"next {datetime.fromtimestamp(following / 1000, zone):%Y-%m-%d %H:%M %Z}"
    return f"{job.id}: {job.when} ({job.cron or job.at}, {job.timezone}), {when}: {job.message}"
