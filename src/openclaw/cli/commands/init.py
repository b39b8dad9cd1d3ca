"""Set OpenClaw up: choose a model, import MCP servers, write openclaw.json.

It looks for a model (keys in the environment, Ollama, LM Studio) and for the MCP servers of Claude
Code, Claude Desktop, Cursor, VS Code, Codex, Gemini, Windsurf and Zed, asks what to use, and shows
every change before writing it. If there is no key, it asks for one, checks it and stores it. It
only adds to an existing file, and keeps a copy of the old one beside it.
"""

import argparse
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from openclaw.cli.commands.doctor import OK, examine
from openclaw.cli.commands.mcp import NO_SANDBOX, target_place
from openclaw.cli.commands.models import choices, why_unusable
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json, option
from openclaw.cli.setup import hub_clients
from openclaw.cli.setup import plan as plans
from openclaw.cli.setup.model_choice import (
    ALL,
    AUTO,
    NONE,
    SetupPrompter,
    chosen_model,
    chosen_names,
)
from openclaw.cli.terminal import fitted
from openclaw.config.json5 import parse
from openclaw.config.load import parse_config, read_text
from openclaw.core import errors
from openclaw.core.clock import SystemClock
from openclaw.mcp_client.bounds import printable


def register(parser: argparse.ArgumentParser) -> None:
    programs = f"{', '.join(plans.CLIENTS)}, {ALL} that are installed, {NONE}"
    for usage, what in (
        ("--yes", "accept all suggestions; change other programs' files only with --register"),
        ("--dry-run", "show the changes and write nothing"),
        ("--model MODEL", f"provider/model, or {AUTO} to decide at every start"),
        ("--register NAMES", f"register OpenClaw with: {programs}"),
        ("--hub NAMES", "move these programs' servers into openclaw.json, and leave them the hub"),
        ("--undo-hub NAMES", "give these programs their own servers back"),
        ("--unregister NAMES", f"take OpenClaw out of: {programs}"),
        ("--replace", "replace an existing file; a copy of it is kept"),
        ("--no-sandbox", NO_SANDBOX),
    ):
        option(parser, usage, what)
    which = f"the servers to import from other programs: {ALL}, {NONE} or names with commas"
    option(parser, "--import NAMES", which, dest="take")
    add_json(parser)


def run(args: argparse.Namespace, env: Environment) -> int:
    if args.hub is not None or args.undo_hub is not None:
        return _move_servers(args, env)
    if args.unregister is not None:
        return _unregister(args, env)
    text = None if args.replace else _present(env)
    plan, agreed = _carry_out(args, env, lambda env, asker: _planned(args, env, asker, text))
    if agreed and not args.json:
        _report(env, plan)
    return errors.EXIT_OK


def _move_servers(args: argparse.Namespace, env: Environment) -> int:
    """Move servers of other programs behind the hub, or back."""
    undoes, known = args.undo_hub is not None, list(plans.CLIENTS)
    said = args.undo_hub if undoes else args.hub
    names = chosen_names(said, known, "program", f"known programs: {', '.join(known)}")

    def make(env: Environment, asker: SetupPrompter | None) -> plans.Plan:
        if undoes:
            return hub_clients.leaving_hub(env, names)
        sandbox, text = not args.no_sandbox, _present(env)
        return hub_clients.moving_to_hub(env, names, text, sandbox=sandbox)

    plan, agreed = _carry_out(args, env, make)
    titles = ", ".join(plans.CLIENTS[name].title for name in plan.clients)
    if agreed and not args.json and undoes:
        env.say(f"Restored the servers of {titles}. Those in {env.config_file} stay.")
    elif agreed and not args.json:
        env.say(f"Moved to the hub: the servers of {titles}. Restart what is running.")
        env.say(f"To go back: {env.program} init --undo-hub {','.join(plan.clients)}")
    return errors.EXIT_FAILED if plan.left_out else errors.EXIT_OK


def _unregister(args: argparse.Namespace, env: Environment) -> int:
    """Take our entry out of other programs' files; nothing else changes."""
    known = list(plans.CLIENTS)
    names = chosen_names(args.unregister, known, "program", f"known programs: {', '.join(known)}")
    plan, agreed = _carry_out(args, env, lambda env, _: plans.unregistering(env, names))
    if agreed and not args.json:
        titles = ", ".join(plans.CLIENTS[name].title for name in plan.clients)
        env.say(f"Took OpenClaw out of {titles}; restart them.")
    return errors.EXIT_FAILED if plan.left_out else errors.EXIT_OK


def import_servers(args: argparse.Namespace, env: Environment) -> int:
    """`openclaw mcp import`: the same for servers alone."""
    found = plans.find_servers(env, args.source)
    unread = "".join(f"; {problem}" for problem in found.unread)
    if missing := sorted(set(args.names) - set(found.servers)):
        raise errors.NotFound(f"there is no MCP server {', '.join(missing)} in that file{unread}")
    if not found.servers:
        whose = args.source or "other programs"
        raise errors.NotFound(f"no MCP servers of {whose} were found{unread}")
    wanted = args.names or list(found.servers)
    text = read_text(env.config_file) or ""
    options: Any = {"servers": wanted, "sandbox": not args.no_sandbox, "replace": args.force}
    plan, agreed = _carry_out(
        args, env, lambda env, _: plans.make_plan(env, found, text, **options)
    )
    if agreed and not args.json:
        env.say(f"Imported {', '.join(plan.servers)} into {env.config_file}.")
    partly = plan.left_out or len(plan.servers) < len(wanted)
    return errors.EXIT_FAILED if partly else errors.EXIT_OK


def _carry_out(
    args: argparse.Namespace,
    env: Environment,
    make: Callable[[Environment, SetupPrompter | None], plans.Plan],
) -> tuple[plans.Plan, bool]:
    """Make a plan, show it and write it if the person agrees; raises KeyboardInterrupt if they leave."""
    # With `--json` nobody is asked, and the facts contain all messages.
    out, env = env, replace(env, stdout=io.StringIO()) if args.json else env
    try:
        asker = _asker(args, env)
        plan = make(env, asker)
        agreed = _agreed(args, env, plan, asker)
        written = _write(env, plan) if agreed else []
    except (EOFError, KeyboardInterrupt):
        env.say("\nNothing was written.")
        raise KeyboardInterrupt from None
    if args.json:
        out.say_json(_facts(out, plan, written))
    return plan, agreed


def _facts(env: Environment, plan: plans.Plan, written: Sequence[plans.Written]) -> dict[str, Any]:
    hide, planned = env.redactor.redact, () if written else plan.changes
    return {
        "config": str(env.config_file),
        "model": plan.model,
        "servers": plan.servers,
        "registered": plan.clients,
        "secrets": sorted({one.variable for one in plan.references if one.stored}),
        "notes": plan.notes,
        "problems": plan.left_out,
        "changes": [{"path": str(one.path), "diff": one.difference(hide)} for one in planned],
        "written": [
            {"path": str(path), "backup": str(backup) if backup else None}
            for path, backup in written
        ],
    }


def _asker(args: argparse.Namespace, env: Environment) -> SetupPrompter | None:
    if env.stdin.isatty() and env.stdout.isatty() and not args.yes:
        return SetupPrompter(env)
    if not args.yes and not args.dry_run:
        ways = "add --yes to accept all suggestions, or --dry-run to see them"
        raise errors.InvalidRequest(f"cannot ask without a terminal or with --json; {ways}")
    return None


def _planned(
    args: argparse.Namespace, env: Environment, asker: SetupPrompter | None, text: str | None
) -> plans.Plan:
    found = plans.find_servers(env)
    targets = {name: plans.client_target(name, env.environ) for name in plans.CLIENTS}
    clients = {name: path for name, path in targets.items() if path is not None}
    if asker is not None:
        state = "will be created" if text is None else "exists and will only be added to"
        env.say("Setting up OpenClaw. Nothing is written until you have seen it; Ctrl-C quits.")
        env.say(f"{env.config_file} {state}.")
        for note in found.notes:
            env.say(fitted(f"note: {printable(note)}", env.stdout, hang=6))
    present = parse_config(text or "{}", env.environ, source=env.config_file).config
    model = present.agents.defaults.model
    now = model.primary if model else None
    return plans.make_plan(
        env,
        found,
        text,
        model=chosen_model(args.model, env, asker, now, present.models.providers),
        servers=_servers(args, env, found, asker, text),
        clients=_clients(args, clients, asker),
        sandbox=not args.no_sandbox,
    )


def _present(env: Environment) -> str | None:
    """The file's text, unless it is empty; raises `InvalidConfig`."""
    text = read_text(env.config_file)
    if text is None or not text.strip():
        return None
    try:
        loaded = parse_config(text, env.environ, source=env.config_file)
    except errors.InvalidConfig as error:
        error.hint = "fix it, or start over with --replace, which keeps a copy of the old file"
        raise
    env.hide(loaded.credentials)
    return text


def _servers(
    args: argparse.Namespace,
    env: Environment,
    found: plans.FoundServers,
    asker: SetupPrompter | None,
    text: str | None,
) -> Sequence[str]:
    names = list(found.servers)
    if args.take is not None:
        there = printable(f"available: {', '.join(names)}") if names else "no other program has one"
        return chosen_names(args.take, names, "MCP server", there)
    place = parse(text).find(target_place(text)) if text is not None else None
    there = list(place.plain()) if place is not None and place.kind == "object" else []
    before = plans.imported_before(env) if text is not None else frozenset[str]()
    marks = dict.fromkeys(before, " - you removed it") | dict.fromkeys(there, " - already imported")
    fresh = [name for name in names if name not in marks]
    if asker is None or not names:
        return fresh
    lines: dict[str, str] = {}
    for name, one in found.servers.items():
        title = plans.CLIENTS[one.client].title
        shown = f"{name}  ({title}: {one.target[:60]}){marks.get(name, '')}"
        lines[name] = printable(shown)
    suggested = ALL if fresh == names else ",".join(fresh) or NONE
    question = "Which of your MCP servers may the agent use?"
    return asker.several(question, lines, suggested=suggested)


def _clients(
    args: argparse.Namespace, here: Mapping[str, Path], asker: SetupPrompter | None
) -> Sequence[str]:
    if args.register is not None:
        if args.register.casefold() == ALL and here:
            return list(here)
        known = list(plans.CLIENTS)
        return chosen_names(args.register, known, "program", f"known programs: {', '.join(known)}")
    if asker is None or not here:
        return ()
    lines = {name: f"{plans.CLIENTS[name].title}  ({path})" for name, path in here.items()}
    question = "Which programs may give OpenClaw orders? They get the tool order_openclaw."
    return asker.several(question, lines, suggested=NONE)


def _agreed(
    args: argparse.Namespace, env: Environment, plan: plans.Plan, asker: SetupPrompter | None
) -> bool:
    """Show the plan; returns whether to carry it out."""
    for note in (*plan.left_out, *plan.notes):
        env.say(f"note: {printable(note)}")
    for change in () if args.yes and not args.dry_run else plan.changes:
        env.say("")
        for line in change.difference(env.redactor.redact):
            env.say(line)
    if not plan.changes:
        env.say("There is nothing to change.")
    elif args.dry_run or (asker is not None and not asker.yes("\nWrite this?")):
        env.say("Nothing was written.")
    else:
        return True
    return False


def _write(env: Environment, plan: plans.Plan) -> list[plans.Written]:
    try:
        written, where = plans.write_all(env, plan, SystemClock())
    except errors.OpenClawError:
        env.say("Nothing was written.")
        raise
    if where:
        env.say(f"\nStored the credentials in {where}.")
    for path, backup in written:
        env.say(f"Wrote {path}" + (f" (previous version: {backup})" if backup else ""))
    return written


def _report(env: Environment, plan: plans.Plan) -> None:
    if plan.model is not None:
        env.say(f"The agent uses {plan.model}.")
    if plan.servers:
        env.say(f"Imported MCP servers: {', '.join(map(printable, plan.servers))}.")
    findings = [one for one in examine(env) if one.level != OK]
    env.say("\nNo problems found." if not findings else "\nPlease check:")
    for finding in findings:
        env.say(fitted(f"  {finding.level}: {finding.message}", env.stdout, hang=4))
        if finding.hint:
            env.say(fitted(f"    -> {finding.hint}", env.stdout, hang=7))
    program = env.program
    env.say("\nNext:")
    chosen = [choice.candidates[0] for choice in choices(env).values()]
    if any(one.api == "local" and why_unusable(one, env) is not None for one in chosen):
        env.say(f"  {program} models pull   # the embedded model's weights, once")
    if plan.servers:
        env.say(f"  {program} mcp probe   # start each server once to check it")
    env.say(f'  {program} agent "What can you do?"   # or: {program} chat')
    if plan.clients:
        titles = ", ".join(plans.CLIENTS[name].title for name in plan.clients)
        env.say(f"  restart {titles}, and ask for order_openclaw")
    else:
        env.say(f"  {program} init --register NAME   # add it to Claude Code, Cursor, …")
