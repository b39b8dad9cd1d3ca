"""Run the agent on a schedule.

The gateway runs schedules: see 'openclaw gateway install'. Times are cron expressions or plain
words: 'weekdays 8:00', 'every 15 minutes', '2026-12-01 09:00'.
"""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from openclaw.agent.port import Agent, MessageContext, Reply
from openclaw.agent.schedules import Job, JobFile, describe_job, last_run, new_job
from openclaw.cli.commands.agent import add_session
from openclaw.cli.commands.sessions import open_named_store
from openclaw.cli.environment import Environment
from openclaw.cli.logging_setup import servers_logged
from openclaw.cli.parser import add_action, chosen_agent, option
from openclaw.cli.run_command import run_interruptible
from openclaw.cli.terminal import as_json
from openclaw.core.clock import SystemClock
from openclaw.core.errors import EXIT_FAILED, EXIT_OK
from openclaw.core.outcome import Outcome
from openclaw.gateway.lock import running_gateway
from openclaw.runtime.access import open_agent
from openclaw.runtime.settings import time_zone


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True, dest="what")
    added = add_action(actions, "add", "add a schedule", json=False)
    option(added, "WHEN", "'weekdays 8:00' or a cron expression")
    option(added, "TEXT", "the message to send to the agent", dest="message")
    option(added, "--name NAME", "a name for it (default: generated)")
    add_session(added, "the conversation")
    option(added, "--agent ID", "the agent that runs it")
    option(added, "--tz ZONE", "the time zone (default: userTimezone)")
    add_action(actions, "list", "list the schedules, when each runs next, and how it last went")
    for name, summary in (
        ("run", "run a schedule now"),
        ("pause", "stop running a schedule until it is resumed"),
        ("resume", "resume a paused schedule"),
        ("remove", "remove a schedule"),
    ):
        option(add_action(actions, name, summary, json=name == "run"), "NAME")


def run(args: argparse.Namespace, env: Environment) -> int:
    jobs, now = JobFile(env.paths.cron), SystemClock().now_ms()
    if args.what == "add":
        _add(args, env, jobs, now)
    elif args.what == "list":
        run_interruptible(env, _list, args, env, list(jobs.read().values()), now)
    elif args.what == "run":
        job = jobs.get(args.name)
        reply = run_interruptible(env, _turn, env, job)
        env.report(args, as_json(reply, job.session_key), reply.text or "(No response)")
        return EXIT_OK if reply.outcome == Outcome.OK else EXIT_FAILED
    elif args.what == "remove":
        jobs.remove(args.name)
        env.say(f"Removed {args.name}.")
    else:
        jobs.pause(args.name, args.what == "pause", now)
        env.say(f"{args.what.capitalize()}d {args.name}.")
    return EXIT_OK


def _add(args: argparse.Namespace, env: Environment, jobs: JobFile, now: int) -> None:
    agent = chosen_agent(env.config, args.agent)
    zone = args.tz or time_zone(agent, env.environ)
    about = {"id": args.name, "agent": agent.id, "session": args.session_key}
    job = new_job(args.when, args.message, zone, now, **about)
    jobs.add(job)
    if running_gateway(env.paths.gateway_lock) is None:
        needed = f"schedules need one: {env.program} gateway install"
        env.warn(f"{env.program}: no gateway is running, and {needed}")
    env.say(f"Added {describe_job(job, now)}")


async def _list(args: argparse.Namespace, env: Environment, jobs: Sequence[Job], now: int) -> None:
    async with open_named_store(None, env) as store:
        runs = [await last_run(store, job) if store else None for job in jobs]
    rows = [
        {
            **asdict(job),
            "next_ms": job.next(now),
            "last_ms": last and last.started_ms,
            "last_state": last and str(last.state),
        }
        for job, last in zip(jobs, runs, strict=True)
    ]
    lines = [describe_job(job, now, last) for job, last in zip(jobs, runs, strict=True)]
    empty = f"No schedules yet. Add one: {env.program} cron add 'weekdays 8:00' 'What is new?'"
    env.report(args, {"jobs": rows}, *lines, empty=empty)


async def _turn(env: Environment, job: Job) -> Reply:
    with servers_logged(env):
        async with open_agent(env) as agent:
            return await _answer(agent, job)


async def _answer(agent: Agent, job: Job) -> Reply:
    settings = await agent.settings(job.agent)
    context = MessageContext(
        text=job.message, session_key=job.session_key, agent_id=settings.id, origin="cron"
    )
    return await agent.reply(context)
