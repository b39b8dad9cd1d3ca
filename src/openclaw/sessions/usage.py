"""Model usage and cost: a record per day and session, in the store."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from pydantic.alias_generators import to_camel

from openclaw.core.clock import Clock
from openclaw.core.events import Usage
from openclaw.core.tools import JsonObject
from openclaw.sessions.records import SessionRef
from openclaw.sessions.store import SessionStore

KEPT_DAYS = 400
_DAY_MS = 86_400_000
_MOST_SESSIONS = 100_000
_STORED = (
    "requests", "input_tokens", "output_tokens", "cache_read_tokens", "cache_write_tokens", "cost",
    "unpriced",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class UsageRow:
    day: str
    agent: str
    session: str
    model: str
    spent: Usage


class UsageLedger:
    """Counts by the days of a time zone."""

    def __init__(self, store: SessionStore, clock: Clock, timezone: str) -> None:
        self._store, self._clock, self._zone = store, clock, ZoneInfo(timezone)

    def today(self) -> str:
        return self.days(1)[0]

    def days(self, count: int) -> list[str]:
        """The last days, today first."""
        now = datetime.fromtimestamp(self._clock.now_ms() / 1000, self._zone)
        return [f"{now - timedelta(days=back):%Y-%m-%d}" for back in range(count)]

    async def add(self, session: SessionRef, model: str, spent: Usage) -> None:
        def added(data: JsonObject) -> JsonObject:
            models: dict[str, Any] = dict(data.get("models", {}))
            models[model] = _stored_fields(_usage(models.get(model, {})) + spent)
            return {"agent": session.agent, "key": session.key, "models": models}

        kind, expires = _kind(self.today()), self._clock.now_ms() + KEPT_DAYS * _DAY_MS
        await self._store.update_document(
            kind, session.id, added, expires_ms=expires, durable=False
        )

    async def rows(self, days: Sequence[str]) -> list[UsageRow]:
        """What was used on these days, in their order."""
        return [
            UsageRow(day, one.data["agent"], one.data["key"], model, _usage(spent))
            for day in days
            for one in await self._store.documents(_kind(day), limit=_MOST_SESSIONS)
            for model, spent in one.data["models"].items()
        ]

    async def cost_today(self, agent: str) -> float:
        rows = await self.rows([self.today()])
        return sum(row.spent.cost for row in rows if row.agent == agent)


def total(rows: Iterable[UsageRow]) -> Usage:
    return sum((row.spent for row in rows), Usage())


def grouped(rows: Iterable[UsageRow], by: str) -> dict[str, Usage]:
    """Totals by day, session (with its agent) or model, in the order of the rows."""
    groups: dict[str, Usage] = {}
    for row in rows:
        name = f"{row.agent}/{row.session}" if by == "session" else str(getattr(row, by))
        groups[name] = groups.get(name, Usage()) + row.spent
    return groups


def money(spent: Usage) -> str:
    """The cost for people: to the cent, or with two significant digits if it is less."""
    if not spent.cost:
        return "price unknown" if spent.unpriced else "$0.00"
    shown = f"${spent.cost:.2f}" if spent.cost >= 0.1 else f"${spent.cost:.2g}"
    return f"at least {shown}" if spent.unpriced else shown


def spent_json(spent: Usage) -> dict[str, Any]:
    return {to_camel(name): round(value, 8) for name, value in _stored_fields(spent).items()}


def row_json(row: UsageRow) -> dict[str, Any]:
    facts = asdict(row)
    del facts["spent"]
    return {**facts, **spent_json(row.spent)}


def _usage(data: JsonObject) -> Usage:
    return Usage(**{name: data[name] for name in _STORED if name in data})


def _stored_fields(spent: Usage) -> dict[str, Any]:
    return {name: getattr(spent, name) for name in _STORED}


def _kind(day: str) -> str:
    return f"usage {day}"
