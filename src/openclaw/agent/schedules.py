"""Schedules, in a file that a person can read and edit, and what runs them in a gateway."""

import json
import logging
import re
from collections.abc import Awaitable, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zoneinfo import ZoneInfo, available_timezones

import anyio
from cronsim import CronSim, CronSimError

from openclaw.agent.notify import notify
from openclaw.agent.port import MessageContext
from openclaw.config.paths import locked, private_directory, write_atomically
from openclaw.core.clock import Clock, random_id
from openclaw.core.errors import InvalidRequest, NotFound, OpenClawError, describe
from openclaw.core.outcome import Outcome
from openclaw.sessions.records import TurnState

if TYPE_CHECKING:
    from anyio.abc import TaskGroup

    from openclaw.agent.port import Reply
    from openclaw.config.schema import CronConfig
    from openclaw.secrets.refs import Secret
    from openclaw.sessions.records import Turn
    from openclaw.sessions.store import SessionStore

logger = logging.getLogger(__name__)

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
        # If it was created in what is now the future, the clock was set back.
        created = self.created_ms if self.created_ms <= now_ms else 0
        return latest if created < latest <= now_ms else None

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
    step = f"*/{count}" if count > 1 else "*"
    cron = f"{step} * * * *" if unit == "minute" else f"0 {step} * * *"
    if count < 1 or most % count:
        raise InvalidRequest(
            f"{count} {unit}s do not divide {'an hour' if unit == 'minute' else 'a day'} evenly",
            field="when",
            hint=f"use a cron expression, such as {cron}" if 0 < count < most else None,
        )
    return cron


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
        if not _ID.fullmatch(job.id):
            raise InvalidRequest("must be letters, digits, - and _", field="name")
        with self._changing() as jobs:
            if job.id in jobs:
                raise InvalidRequest(f"a schedule '{job.id}' already exists", field="name")
            if len(jobs) >= MOST_JOBS:
                raise InvalidRequest(f"there are already {MOST_JOBS} schedules")
            jobs[job.id] = job

    def get(self, id: str) -> Job:
        return _known(self.read(), id)

    def pause(self, id: str, paused: bool, now_ms: int) -> None:
        """Pause or continue; runs that were missed meanwhile are not made up for."""
        with self._changing() as jobs:
            job = replace(_known(jobs, id), paused=paused)
            jobs[id] = job if paused else replace(job, created_ms=now_ms)

    def remove(self, id: str) -> None:
        with self._changing() as jobs:
            del jobs[_known(jobs, id).id]

    @contextmanager
    def _changing(self) -> Generator[dict[str, Job]]:
        """The schedules to change; no other program can change them meanwhile."""
        private_directory(self.path.parent)
        with locked(self.path):
            jobs = self.read()
            yield jobs
            rows = [asdict(job) for job in jobs.values()]
            write_atomically(self.path, json.dumps({"jobs": rows}, indent=2))


def _known(jobs: Mapping[str, Job], id: str) -> Job:
    if id not in jobs:
        known = ", ".join(jobs) or "none"
        raise NotFound(f"there is no schedule '{id}'", hint=f"available: {known}")
    return jobs[id]


def new_job(when: str, message: str, timezone: str, now_ms: int, **more: Any) -> Job:
    """A schedule; raises `InvalidRequest` for a time that is not understood or in the past."""
    if not message.strip():
        raise InvalidRequest("is empty", field="message")
    if timezone not in available_timezones():
        raise InvalidRequest(f"there is no time zone '{timezone}'", field="tz")
    id = more.pop("id", None) or random_id()[:8].replace("_", "x").replace("-", "x")
    job = Job(id, when, message, timezone, now_ms, **parse_when(when), **more)
    if job.next(now_ms) is None:
        raise InvalidRequest(f"{when!r} is in the past", field="when")
    return job


def describe_job(job: Job, now_ms: int, last: "Turn | None" = None) -> str:
    following, when = job.next(now_ms), "over"
    if job.paused:
        when = "paused"
    elif following is not None:
        when = f"next {_shown(following, job)}"
    if last is not None:
        when = f"{when}, last {_shown(last.started_ms, job)} ({OUTCOMES[last.state]})"
    meaning = "" if job.cron == job.when else f"{job.cron or job.at}, "
    return f"{job.id}: {job.when} ({meaning}{job.timezone}), {when}: {job.message}"


def _shown(at_ms: int, job: Job) -> str:
    return f"{datetime.fromtimestamp(at_ms / 1000, ZoneInfo(job.timezone)):%Y-%m-%d %H:%M %Z}"


OUTCOMES: Mapping[TurnState, str] = {
    TurnState.RUNNING: "is running",
    TurnState.OK: "ok",
    TurnState.CANCELLED: "stopped",
    TurnState.ERROR: "failed",
    TurnState.LOST: "interrupted",
}


async def last_run(store: "SessionStore", job: Job) -> "Turn | None":
    """The schedule's last turn, also one that was asked for by hand if it has its own session."""
    begins = "" if job.session is None else f"cron-{job.id}-"
    for info in await store.find_sessions(job.session_key, job.agent or "main"):
        turns = (await store.details(info.ref)).turns
        return next((turn for turn in reversed(turns) if turn.id.startswith(begins)), None)
    return None


# A run's id is made of its schedule and its time, and is the id of its turn: of several gateways on
# one store, only the first runs it. Which run is due follows from the clock, so no runs are stored.

LOOK_SECONDS = 5.0  # between two checks of the clock and the file


@dataclass(slots=True)
class Scheduler:
    jobs: JobFile
    settings: "Callable[[], CronConfig]"
    answer: "Callable[[MessageContext], Awaitable[Reply]]"
    clock: Clock
    environ: Mapping[str, str]
    resolve: "Callable[[str], Awaitable[Secret]]"
    stopped: bool = False
    _begun: dict[str, int] = field(default_factory=dict[str, int])
    _broken: str = ""

    async def run(self) -> None:
        wall, monotonic = self.clock.now_ms(), self.clock.monotonic()
        async with anyio.create_task_group() as group:
            while True:
                if not self.stopped:
                    # If the clock was set back, the start was earlier by today's clock.
                    elapsed = int((self.clock.monotonic() - monotonic) * 1000)
                    self.look(min(wall, self.clock.now_ms() - elapsed), group)
                await anyio.sleep(LOOK_SECONDS)

    def look(self, started_ms: int, group: "TaskGroup") -> None:
        for job, due in self.due(started_ms):
            group.start_soon(self._run, job, due, name=f"schedule {job.id}")

    def due(self, started_ms: int) -> list[tuple[Job, int]]:
        """Due jobs that were not started here; with `missed: "run"`, also from before the start."""
        settings = self.settings()
        found: list[tuple[Job, int]] = []
        for job in self._jobs() if settings.enabled else ():
            now = self.clock.now_ms()
            due = job.due(now)
            if due is None or self._begun.get(job.id) == due:
                continue
            self._begun[job.id] = due
            # If it was created in the future, the clock was set back: earlier runs weren't missed.
            made_up_for = settings.missed == "run" and job.created_ms <= now
            if due >= started_ms or made_up_for:
                found.append((job, due))
        return found

    def _jobs(self) -> Sequence[Job]:
        try:
            jobs = [job for job in self.jobs.read().values() if not job.paused]
        except (OpenClawError, OSError) as error:
            if str(error) != self._broken:
                self._broken = str(error)
                logger.warning("the schedules cannot be read: %s", error)
            return ()
        self._broken = ""
        return jobs

    async def _run(self, job: Job, due: int) -> None:
        context = MessageContext(
            text=job.message,
            session_key=job.session_key,
            agent_id=job.agent or "main",
            origin="cron",
            idempotency_key=job.run_id(due),
        )
        try:
            reply = await self.answer(context)
        except OpenClawError as error:
            logger.warning("the schedule '%s' failed: %s", job.id, describe(error))
            await self._notify(job, Outcome.ERROR, describe(error))
            return
        except Exception:
            logger.exception("the schedule '%s' failed", job.id)
            return
        if reply.outcome != Outcome.DUPLICATE:
            logger.info("the schedule '%s' has run: %s", job.id, reply.outcome)
            await self._notify(job, reply.outcome, reply.text)

    async def _notify(self, job: Job, outcome: Outcome, text: str) -> None:
        result = {"id": job.id, "session": job.session_key, "outcome": outcome, "text": text}
        await notify("cron", self.settings(), result, self.environ, self.resolve)
