"""What models were asked and what it cost: a record per day and session, in the store."""

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any
from zoneinfo import ZoneInfo

from openclaw.core.clock import Clock
from openclaw.core.tools import JsonObject
from openclaw.sessions.model import SessionRef
from openclaw.sessions.store import SessionStore

KEPT_DAYS = 400
_DAY_MS = 86_400_000
_MOST_SESSIONS = 100_000


@dataclass(frozen=True, slots=True)
class Spent:
    """Requests and their tokens. `cost` is in US dollars, without the `unpriced` requests."""

    requests: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    cache_read_tokens: int = 0
    cache_write_tokens: int = 0
    cost: float = 0.0
    unpriced: int = 0

    def __add__(self, other: "Spent") -> "Spent":
        names = (one.name for one in fields(self))
        return Spent(**{name: getattr(self, name) + getattr(other, name) for name in names})


@dataclass(frozen=True, slots=True)
class UsageRow:
    day: str
    agent: str
    session: str
    model: str
    spent: Spent


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

    async def add(self, session: SessionRef, model: str, spent: Spent) -> None:
        def added(data: JsonObject) -> JsonObject:
            models: dict[str, Any] = dict(data.get("models", {}))
            models[model] = asdict(_spent(models.get(model, {})) + spent)
            return {"agent": session.agent, "key": session.key, "models": models}

        kind, expires = _kind(self.today()), self._clock.now_ms() + KEPT_DAYS * _DAY_MS
        await self._store.update_document(
            kind, session.id, added, expires_ms=expires, durable=False
        )

    async def rows(self, days: Sequence[str]) -> list[UsageRow]:
        """What was used on these days, in their order."""
        return [
            UsageRow(day, one.data["agent"], one.data["key"], model, _spent(spent))
            for day in days
            for one in await self._store.documents(_kind(day), limit=_MOST_SESSIONS)
            for model, spent in one.data["models"].items()
        ]

    async def cost_today(self, agent: str) -> float:
        rows = await self.rows([self.today()])
        return sum(row.spent.cost for row in rows if row.agent == agent)


def total(rows: Iterable[UsageRow]) -> Spent:
    return sum((row.spent for row in rows), Spent())


def grouped(rows: Iterable[UsageRow], by: str) -> dict[str, Spent]:
    """Totals by day, session (with its agent) or model, in the order of the rows."""
    groups: dict[str, Spent] = {}
    for row in rows:
        name = f"{row.agent}/{row.session}" if by == "session" else str(getattr(row, by))
        groups[name] = groups.get(name, Spent()) + row.spent
    return groups


def money(spent: Spent) -> str:
    """The cost for people: in cents, or with two significant digits if it is less."""
    if not spent.cost:
        return "price unknown" if spent.unpriced else "$0.00"
    shown = f"${spent.cost:.2f}" if spent.cost >= 0.1 else f"${spent.cost:.2g}"
    return f"at least {shown}" if spent.unpriced else shown


def spent_json(spent: Spent) -> dict[str, Any]:
    from pydantic.alias_generators import to_camel  # not for the command's help

    return {to_camel(name): round(value, 8) for name, value in asdict(spent).items()}


def row_json(row: UsageRow) -> dict[str, Any]:
    facts = asdict(row)
    del facts["spent"]
    return {**facts, **spent_json(row.spent)}


def _spent(data: JsonObject) -> Spent:
    return Spent(**{one.name: data[one.name] for one in fields(Spent) if one.name in data})


def _kind(day: str) -> str:
    return f"usage {day}"
