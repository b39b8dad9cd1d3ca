"""What models were asked and what it cost, in US dollars as far as prices are known.

Days are those of the time zone in `userTimezone`, else of this machine.
"""

import argparse
from typing import TYPE_CHECKING

from openclaw.cli.environment import Environment
from openclaw.core.errors import EXIT_OK

if TYPE_CHECKING:
    from openclaw.sessions.usage import UsageRow

_DAYS = 30


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--by", choices=("day", "session", "model"), default="day", help="what to add up by (day)"
    )
    parser.add_argument(
        "--days", type=_days, default=_DAYS, metavar="N", help=f"how many days back ({_DAYS})"
    )
    parser.add_argument("--agent", metavar="ID", help="only this agent's")
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


def _days(text: str) -> int:
    if not text.isdecimal() or not 1 <= len(text) <= 3 or not 1 <= int(text) <= 400:
        raise argparse.ArgumentTypeError(f"give a whole number from 1 to 400, not {text!r}")
    return int(text)


def run(args: argparse.Namespace, env: Environment) -> int:
    import anyio

    from openclaw.sessions.usage import grouped, money, row_json, spent_json, total

    rows = anyio.run(_rows, args, env)
    if args.json:
        env.say_json({"rows": [row_json(row) for row in rows], "total": spent_json(total(rows))})
        return EXIT_OK
    if not rows:
        env.say(f"No model was asked in the last {args.days} days.")
        return EXIT_OK
    groups = {**grouped(rows, args.by), "total": total(rows)}
    width = max(map(len, groups))
    for name, spent in groups.items():
        tokens = spent.input_tokens + spent.output_tokens
        env.say(
            f"{name:<{width}}  {money(spent):>10}  {spent.requests:>6} requests  {tokens:,} tokens"
        )
    return EXIT_OK


async def _rows(args: argparse.Namespace, env: Environment) -> "list[UsageRow]":
    from openclaw.cli.session_store import opened
    from openclaw.config.merge import default_agent_id, effective_agents
    from openclaw.core.clock import SystemClock
    from openclaw.runtime.host import time_zone
    from openclaw.sessions.usage import UsageLedger

    config = env.load_config().config
    zone = time_zone(effective_agents(config)[default_agent_id(config)], env.environ)
    async with opened(None, env) as store:
        if store is None:
            return []
        ledger = UsageLedger(store, SystemClock(), zone)
        rows = await ledger.rows(ledger.days(args.days))
    return [row for row in rows if args.agent in (None, row.agent)]
