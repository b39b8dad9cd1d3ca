"""Runs schedules while the gateway runs.

A run's id is made of its schedule and its time, and is the id of its turn: of several gateways on one
store, only the first runs it. Which run is due follows from the clock, so no runs are stored.
"""

import json
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import anyio
from anyio.abc import TaskGroup

from openclaw.agent.port import MessageContext, Reply
from openclaw.agent.schedules import Job, JobFile
from openclaw.core.clock import Clock
from openclaw.core.errors import OpenClawError, describe
from openclaw.net.proxies import open_client
from openclaw.secrets.refs import Secret

if TYPE_CHECKING:
    from openclaw.config.schema import CronConfig

logger = logging.getLogger(__name__)

LOOK_SECONDS = 5.0  # between two looks at the clock and the file
_NOTIFY_SECONDS = 60.0


async def _unresolved(text: str) -> "Secret":
    return Secret(text)


@dataclass(slots=True)
class Scheduler:
    jobs: JobFile
    settings: "Callable[[], CronConfig]"
    answer: Callable[[MessageContext], Awaitable[Reply]]
    clock: Clock
    environ: Mapping[str, str] = field(default_factory=dict[str, str])
    resolve: "Callable[[str], Awaitable[Secret]]" = field(default=_unresolved)
    stopped: bool = False
    _begun: dict[str, int] = field(default_factory=dict[str, int])
    _broken: str = ""

    async def run(self) -> None:
        started = self.clock.now_ms()
        async with anyio.create_task_group() as group:
            while True:
                if not self.stopped:
                    self.look(started, group)
                await anyio.sleep(LOOK_SECONDS)

    def look(self, started_ms: int, group: TaskGroup) -> None:
        for job, due in self.due(started_ms):
            group.start_soon(self._run, job, due, name=f"schedule {job.id}")

    def due(self, started_ms: int) -> list[tuple[Job, int]]:
        """What is due and was not started here, with `missed: "run"` also from before the start."""
        settings = self.settings()
        found: list[tuple[Job, int]] = []
        for job in self._jobs() if settings.enabled else ():
            due = job.due(self.clock.now_ms())
            if due is None or self._begun.get(job.id) == due:
                continue
            self._begun[job.id] = due
            if due >= started_ms or settings.missed == "run":
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
            await self._notify(job, "error", describe(error))
            return
        except Exception:
            logger.exception("the schedule '%s' failed", job.id)
            return
        if reply.outcome != "duplicate":
            logger.info("the schedule '%s' has run: %s", job.id, reply.outcome)
            await self._notify(job, reply.outcome, reply.text)

    async def _notify(self, job: Job, outcome: str, text: str) -> None:
        settings = self.settings()
        told = {"id": job.id, "session": job.session_key, "outcome": outcome, "text": text}
        if settings.notify:
            from openclaw.agent.toolpath.hooks import run_command

            program, *rest = settings.notify
            words = [program, *(_filled(word, told) for word in rest)]
            reason = await run_command(
                words, json.dumps(told).encode(), self.environ, seconds=_NOTIFY_SECONDS
            )
            if reason is not None:
                logger.warning("the command in cron.notify failed: %s", reason)
        if settings.webhook is not None:
            await self._post(settings.webhook, settings.webhook_token, told)

    async def _post(self, address: str, token: str | None, told: Mapping[str, str]) -> None:
        import httpx2

        try:
            headers = {"Content-Type": "application/json"}
            if token is not None:
                headers["Authorization"] = f"Bearer {(await self.resolve(token)).reveal()}"
            async with open_client(address, self.environ, silence=_NOTIFY_SECONDS) as client:
                answer = await client.post(address, content=json.dumps(told), headers=headers)
                answer.raise_for_status()
        except (httpx2.HTTPError, httpx2.InvalidURL, OpenClawError) as error:
            logger.warning("cron.webhook could not be reached: %s", error)


_MOST_SHOWN = 1_000


def _filled(word: str, told: Mapping[str, str]) -> str:
    """An argument with its placeholders filled in; no value becomes an option."""
    for name, value in told.items():
        word = word.replace(f"{{{name}}}", value[:_MOST_SHOWN].lstrip("-").replace("\0", ""))
    return word
