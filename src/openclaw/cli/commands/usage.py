"""Show model requests and their cost, in US dollars as far as prices are known.

Days are in the time zone of `userTimezone`, otherwise this machine's.
"""

import argparse

from openclaw.cli.commands.sessions import open_named_store
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json, chosen_agent, option, whole_number
from openclaw.cli.terminal import counted
from openclaw.core.clock import SystemClock
from openclaw.runtime.settings import time_zone
from openclaw.sessions import usage

_DAYS = 30


def register(parser: argparse.ArgumentParser) -> None:
    by = ("day", "session", "model")
    option(parser, "--by", "group by (default: day)", choices=by, default="day")
    days = whole_number(1, 400)
    option(parser, "--days N", f"how many days back (default: {_DAYS})", type=days, default=_DAYS)
    option(parser, "--agent ID", "only this agent's")
    add_json(parser)


async def run(args: argparse.Namespace, env: Environment) -> None:
    zone = time_zone(chosen_agent(env.config, None), env.environ)
    rows: list[usage.UsageRow] = []
    async with open_named_store(None, env) as store:
        if store is not None:
            ledger = usage.UsageLedger(store, SystemClock(), zone)
            rows = await ledger.rows(ledger.days(args.days))
    rows = [row for row in rows if args.agent in (None, row.agent)]
    groups = {**usage.grouped(rows, args.by), "total": usage.total(rows)} if rows else {}
    width = max(map(len, groups), default=0)
    lines = [
        f"{name:<{width}}  {usage.money(spent):>10}  {spent.requests:>6} "
        f"{'request ' if spent.requests == 1 else 'requests'}  "
        f"{spent.input_tokens + spent.output_tokens:,} tokens"
        for name, spent in groups.items()
    ]
    facts = {
        "rows": [usage.row_json(row) for row in rows],
        "total": usage.spent_json(usage.total(rows)),
    }
    empty = f"No model requests in the last {counted(args.days, 'day')}."
    env.report(args, facts, *lines, empty=empty)
