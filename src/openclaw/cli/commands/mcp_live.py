"""The `openclaw mcp` commands that use running servers: `tools`, `call`, `probe`, `login` and others."""

import argparse
import json
import sys
from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, nullcontext
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, quote, urlsplit

import anyio

from openclaw.agent.toolpath.dataflow import tool_of
from openclaw.cli.chat.terminal_questions import TerminalQuestions
from openclaw.cli.chat.turn_view import TurnView, named
from openclaw.cli.commands.mcp import pair, set_effects
from openclaw.cli.environment import Environment
from openclaw.cli.logging_setup import last_words, servers_logged
from openclaw.cli.parser import chosen_agent, no_server, not_there
from openclaw.cli.terminal import counted, shortened, visible_lines
from openclaw.config.agent_schema import McpServerConfig
from openclaw.config.merge import EffectiveAgent
from openclaw.content.folding import strip_invisible
from openclaw.content.frame import unframed
from openclaw.core.clock import SystemClock
from openclaw.core.content import Block, Media, ResourceLink, Text
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, InvalidRequest, NotFound, ServerUnavailable
from openclaw.core.questions import DECLINED, Answer, Elicit, Question, elicit_with
from openclaw.core.tools import CallContext, JsonObject, ToolSource, json_object
from openclaw.mcp_client.auth.login import LoginPrompt, open_browser
from openclaw.mcp_client.auth.logins import Logins
from openclaw.mcp_client.bounds import printable
from openclaw.mcp_client.bridge.prompts import PromptCall, parse_arguments
from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key
from openclaw.mcp_client.catalog.pins import INSTRUCTIONS, Pinned, diff, shown_name
from openclaw.mcp_client.catalog.server_tools import safe_name
from openclaw.mcp_client.lifecycle.server_state import in_words
from openclaw.mcp_client.session.login import log_in
from openclaw.policy.dataflow.effects import effect_of
from openclaw.runtime.gateway_connection import ask_gateway
from openclaw.runtime.host import flow_rules, open_servers

if TYPE_CHECKING:
    from openclaw.mcp_client.lifecycle.managed_server import ServerStatus
    from openclaw.mcp_client.lifecycle.manager import McpManager
    from openclaw.runtime.host import OpenServers

_AGENT = "cli"
_QUESTION_CHARS, _SHOWN = 500, 200
_MARGIN = 5.0  # seconds beyond a server's own time to connect


async def list_tools(args: argparse.Namespace, env: Environment) -> int:
    async with _live(env, args.agent, only=args.servers) as (manager, tools, _):
        specs, broken = tools.specs(), _unready(manager)
        found = {one.snapshot.name: list(one.suspicions) for one in manager.status()}
    suspicions = {name: words for name, words in found.items() if words}
    facts = {"tools": [spec.to_json() for spec in specs], "suspicions": suspicions}
    facts |= {"unavailable": [_status(one) for one in broken]}
    firsts = {spec.name: shortened(spec.description.partition("\n")[0], _SHOWN) for spec in specs}
    env.report(args, facts, *(_safely(env, f"{name}\n    {text}") for name, text in firsts.items()))
    if not args.json:
        _warn_of(env, broken)
        for name, words in suspicions.items():
            for one in words:
                env.warn(printable(f"MCP server '{name}': {one}"))
    return EXIT_FAILED if broken else EXIT_OK


async def effects(args: argparse.Namespace, env: Environment) -> None:
    if args.changes:
        return set_effects(args, env)
    async with _live(env, args.agent, only=[args.name]) as (manager, tools, agent):
        _require_ready(env, manager)
        table = flow_rules(env.config.dataflow, agent).effects
        found = [tool_of(spec, spec.name) for spec in tools.specs()]
    words = {
        "nothing": "reads",
        "opens": "opens an address",
        "own": "changes something of yours",
        "reaches": "reaches others",
    }
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for tool in found:
        effect = effect_of(tool, table)
        row = {"tool": tool.name, "stake": effect.stake, "final": effect.final}
        rows.append({**row, "runs": effect.runs, "why": effect.why})
        does = f"{words[effect.stake]}{', for good' if effect.final else ''}"
        lines.append(_safely(env, f"{tool.name}: {does} ({effect.why})"))
    return env.report(args, {"server": args.name, "tools": rows}, *lines)


async def call_tool(args: argparse.Namespace, env: Environment) -> int:
    words = args.arguments
    if words and "=" not in words[0] and "/" not in args.tool:
        # Accept SERVER TOOL too, besides SERVER/TOOL and the full name.
        args.tool, args.arguments = f"{args.tool}/{words[0]}", words[1:]
    wanted, (arguments, typed) = args.tool, _arguments(args)
    agent = chosen_agent(env.config, args.agent)
    if wanted in agent.servers:
        hint = f"{env.program} mcp tools {wanted} lists them"
        raise InvalidRequest(f"name the tool of MCP server '{wanted}' to call", hint=hint)
    owners = _servers_of(agent, wanted)
    async with _live(env, args.agent, only=owners) as (manager, tools, agent):
        names: dict[str, str] = {}
        schemas = {spec.name: spec.input_schema for spec in tools.specs()}
        for spec in tools.specs():
            # The first one wins: a server's own `read_resource` has the same origin as the one we add.
            for known in (spec.name, f"{spec.origin.server}/{spec.origin.tool}"):
                names.setdefault(known, spec.name)
        if wanted not in names:
            if owners:  # otherwise servers that don't answer don't matter
                _require_ready(env, manager)
            there = [name for name in names if "/" in name]
            raise not_there(f"there is no tool '{wanted}'", wanted, there)
        context = CallContext(
            agent=agent.id,
            session=_AGENT,
            call_id=_AGENT,
            approved=True,  # by the person who typed the command
            elicit=_elicit(env, quiet=args.json),
        )
        known = json_object(schemas[names[wanted]].get("properties"))
        given = {key: _value(word, json_object(known.get(key))) for key, word in typed.items()}
        result = await tools.call(names[wanted], arguments | given, context)
    # Frames are only for models.
    plain = [replace(b, text=unframed(b.text)) if isinstance(b, Text) else b for b in result.blocks]
    shown = [_shown(block) for block in result.outputs or plain]
    content = [fact for fact, _ in shown]
    facts = {"isError": result.is_error, "content": content, "details": result.details}
    env.report(args, facts, *(_safely(env, text) for _, text in shown))
    return EXIT_FAILED if result.is_error else EXIT_OK


def _elicit(env: Environment, *, quiet: bool) -> Elicit:
    """Puts servers' questions to the person at the terminal; without one, declines and says so."""
    if env.stdin.isatty() and env.stderr.isatty() and not quiet:
        there = TerminalQuestions.at_terminal(
            env.stdin, env.stderr, env.warn, nullcontext, env.environ
        )
        return elicit_with(there.ask)

    async def declined(question: Question) -> Answer:
        why = "--json asks nobody" if quiet else "there is no terminal"
        asked = printable(question.title)[:_QUESTION_CHARS]
        env.warn(f"{asked} The question was declined, because {why}.")
        return DECLINED

    return elicit_with(declined)


def _servers_of(agent: EffectiveAgent, tool: str) -> list[str]:
    server = tool.partition("/")[0]
    if server != tool:
        return [server]
    return [
        name
        for name, config in agent.servers.items()
        if tool.casefold().startswith(f"mcp_{safe_name(config.tool_prefix or name)}_".casefold())
    ]


def _arguments(args: argparse.Namespace) -> tuple[dict[str, Any], dict[str, str]]:
    """The arguments of --args, and the words after the tool's name."""
    arguments: dict[str, Any] = {}
    if args.args:
        try:
            given: Any = json.loads(args.args)
        except ValueError as error:
            raise InvalidRequest(f"--args is not JSON: {error}") from error
        if not isinstance(given, dict):
            raise InvalidRequest("--args is not a JSON object")
        arguments.update(given)  # pyright: ignore[reportUnknownArgumentType] - any JSON
    hint = "pass all arguments as JSON with --args"
    return arguments, dict(pair(word, "=", "an argument", hint) for word in args.arguments)


def _value(word: str, schema: JsonObject) -> Any:
    """What this word means as JSON, unless the tool expects a text."""
    if schema.get("type") == "string" and not word.startswith('"'):
        return word
    try:
        return json.loads(word)
    except ValueError:
        return word


async def probe_servers(
    env: Environment,
    agents: Iterable[EffectiveAgent],
    limit: float | None = None,
    *,
    quiet: bool = False,
    reported: bool = True,
) -> list[tuple["ServerStatus", float]]:
    """Start these agents' servers once; returns each one's status, and after how many ms.

    `limit` is in seconds; with `reported`, the caller reports the servers' last output.
    """
    eager = {"lazy": False, "restart_on_crash": False}
    chosen = [
        replace(one, servers={n: s.model_copy(update=eager) for n, s in one.servers.items()})
        for one in agents
    ]
    clock, times = SystemClock(), dict[str, float]()
    names = list(dict.fromkeys(name for agent in chosen for name in agent.servers))
    seconds = min(filter(None, (limit, _patience(chosen))))

    def left() -> str:
        waited_for = [name for name in names if name not in times]
        return f"{len(times)} of {len(names)} answered; starting {named(waited_for)}"

    async with _running(env, chosen, reported=reported) as opened:
        began = clock.monotonic()

        async def watch(agent: str, name: str) -> None:
            await opened.manager.wait_for_tools(agent, servers=[name], timeout=seconds)
            times[name] = (clock.monotonic() - began) * 1000

        view = TurnView(env.stderr, env.redactor.redact, env.environ, left)
        async with view.working(quiet=quiet), anyio.create_task_group() as group:
            for agent in chosen:
                for name in agent.servers:
                    group.start_soon(watch, agent.id, name, name=f"probe {name}")
        return [(one, times.get(one.snapshot.name, 0.0)) for one in opened.manager.status()]


async def probe(args: argparse.Namespace, env: Environment) -> int:
    found = await probe_servers(env, [_selected(env, args.agent, args.servers)], quiet=args.json)
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for one, ms in found:
        rows.append(row := {**_status(one), "ms": round(ms, 1)})
        lines.append(_probe_line(row))
        lines += last_words(one.snapshot.stderr) if row["state"] != "ready" else []
    env.report(args, {"servers": rows}, *lines)
    return EXIT_OK if all(row["state"] == "ready" for row in rows) else EXIT_FAILED


def _probe_line(row: Mapping[str, Any]) -> str:
    if row["state"] != "ready":
        error = row["error"] or "no answer"
        if "no handshake" in error:
            error += "\n    Check its command and what it writes to stderr, or raise its `timeout`"
        return f"{row['name']}: {row['state'].replace('_', ' ')}: {error}"
    offers = ", ".join(counted(row[f"{what}s"], what) for what in ("tool", "resource", "prompt"))
    software = " ".join(word for word in (row["serverName"], row["serverVersion"]) if word)
    line = f"{row['name']}: ready in {row['ms']:.0f} ms, {row['protocol']}, {offers} ({software})"
    notes = [*row["suspicions"], *row["leftOut"], *row["crossings"]]
    if row["pin"] not in (None, "pinned"):
        notes.append(f"{row['pin']}; see: openclaw mcp pins show {row['name']}")
    return "\n".join([line, *(f"    {note}" for note in notes)])


async def prompt(args: argparse.Namespace, env: Environment) -> None:
    if args.prompt is None:
        return await _list_prompts(args, env)
    server, colon, name = str(args.prompt).removeprefix("/").partition(":")
    if not colon:
        raise InvalidRequest(f"a prompt must have the form SERVER:PROMPT, not {args.prompt!r}")
    call = PromptCall(server, name, parse_arguments(args.arguments))
    async with _live(env, args.agent, only=[server]) as (manager, _, agent):
        elicit = _elicit(env, quiet=args.json)
        messages = await manager.get_prompt(agent.id, call, elicit=elicit)
    rows: list[dict[str, Any]] = []
    texts: list[str] = []
    for message in messages:
        shown = [_shown(block) for block in message.blocks]
        rows.append({"role": message.role, "content": [fact for fact, _ in shown]})
        text = "\n".join([f"[{message.role}]", *(text for _, text in shown)])
        texts.append(_safely(env, text))
    return env.report(args, {"messages": rows}, *texts)


async def _list_prompts(args: argparse.Namespace, env: Environment) -> None:
    async with _live(env, args.agent) as (manager, _, agent):
        prompts = manager.prompts(agent.id)
        _warn_of(env, _unready(manager))
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for one in prompts:
        arguments = [asdict(argument) for argument in one.arguments]
        row = {"server": one.server, "prompt": one.name, "description": one.description}
        rows.append({**row, "arguments": arguments})
        takes = [f"{a.name}=…" if a.required else f"[{a.name}=…]" for a in one.arguments]
        lines.append(printable(" ".join([one.command, *takes])))
        lines.append(_safely(env, f"    {shortened(one.description, _SHOWN)}"))
    env.report(args, {"prompts": rows}, *lines, empty="No MCP server offers prompts.")


def restart(args: argparse.Namespace, env: Environment) -> None:
    try:
        ask_gateway(env.paths, "POST", f"/api/servers/{quote(args.name, safe='')}/restart")
    except NotFound:
        known = sorted({name for name, _ in _configured(env)})
        if args.name in known:
            raise
        raise no_server(args.name, known) from None
    env.say(f"Restarting '{args.name}'.")


def _selected(env: Environment, agent_id: str | None, only: Sequence[str]) -> EffectiveAgent:
    """The agent with only these servers, or with all of its own."""
    agent = chosen_agent(env.config, agent_id)
    for name in sorted(set(only) - set(agent.servers)):
        raise no_server(name, agent.servers)
    servers = {name: one for name, one in agent.servers.items() if not only or name in only}
    return replace(agent, servers=servers)


def _configured(env: Environment) -> list[tuple[str, McpServerConfig]]:
    """Every agent's servers."""
    return [one for agent in env.agents().values() for one in agent.servers.items()]


def _patience(agents: Iterable[EffectiveAgent]) -> float:
    """How many seconds to wait for the slowest of their servers."""
    servers = [one for agent in agents for one in agent.servers.values()]
    return max((one.timeout / 1000 for one in servers), default=0.0) + _MARGIN


@asynccontextmanager
async def _running(
    env: Environment, agents: Iterable[EffectiveAgent], *, reported: bool = True
) -> "AsyncGenerator[OpenServers]":
    used = {agent.id: agent for agent in agents}
    with servers_logged(env, reported=reported):
        async with open_servers(env.loaded, env.environ, env.redactor, used) as opened:
            yield opened


@asynccontextmanager
async def _live(
    env: Environment, agent_id: str | None, only: Sequence[str] = ()
) -> "AsyncGenerator[tuple[McpManager, ToolSource, EffectiveAgent]]":
    agent = _selected(env, agent_id, only)
    async with _running(env, [agent]) as opened:
        words = f"starting {named(list(agent.servers))}"
        view = TurnView(env.stderr, env.redactor.redact, env.environ, lambda: words)
        async with view.working():
            await opened.manager.wait_for_tools(agent.id, timeout=_patience([agent]))
        yield opened.manager, opened.tools(agent), agent


def _unready(manager: "McpManager") -> list["ServerStatus"]:
    good = ("ready", "disconnected")
    return [one for one in manager.status() if one.snapshot.state.value not in good]


def _require_ready(env: Environment, manager: "McpManager") -> None:
    broken = _unready(manager)
    _warn_of(env, broken)
    for one in broken:
        raise ServerUnavailable(one.snapshot.name, "its tools cannot be called now")


def _warn_of(env: Environment, broken: Iterable["ServerStatus"]) -> None:
    for one in broken:
        reason = one.snapshot.last_error or "no answer"
        env.warn(f"MCP server '{one.snapshot.name}' {in_words(one.snapshot.state, reason)}")
        for line in last_words(one.snapshot.stderr):
            env.warn(line)


def _status(one: "ServerStatus") -> dict[str, Any]:
    return {**one.to_json(), "error": one.snapshot.last_error}


def _shown(block: Block) -> tuple[dict[str, Any], str]:
    """The block as JSON, and as text for a person."""
    match block:
        case Text():
            return {"type": "text", "text": block.text}, strip_invisible(block.text)
        case Media():
            size = len(block.data) if block.data is not None else None
            facts = {"type": block.kind, "mimeType": block.mime_type, "bytes": size}
            return facts, f"[{block.mime_type}, {size or 0} bytes]"
        case ResourceLink():
            facts = {"type": "resource_link", "uri": block.uri, "name": block.name}
            return facts, f"[{block.name}: {block.uri}]"


def _safely(env: Environment, text: str) -> str:
    return visible_lines(text) if env.stdout.isatty() else text


# ---- pins: what servers declared when they were accepted, and what they declare now; logins


def pins(args: argparse.Namespace, env: Environment) -> None:
    if args.what != "list" and args.name is None:
        raise InvalidRequest(f"name a server: {env.program} mcp pins {args.what} NAME")
    does = {"list": _list_pins, "show": _show_pins, "accept": _accept_pins}
    does[args.what](args, env, PinStore(env.paths.pins))


def pinned_servers(env: Environment, store: PinStore) -> Iterator[tuple[str, str, Pinned]]:
    """Name, key and pins of every server that has any, under the name it is configured with."""
    known = store.load()
    for name, config in _configured(env):
        if (pinned := known.pop(key := pin_key(config), None)) is not None:
            yield name, key, pinned
    for key, pinned in known.items():
        yield pinned.name, key, pinned


def _list_pins(args: argparse.Namespace, env: Environment, store: PinStore) -> None:
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for name, _, pinned in pinned_servers(env, store):
        pending = [one for one in pinned.pending if one != INSTRUCTIONS]
        row: dict[str, Any] = {
            "name": name,
            "target": pinned.target,
            "tools": sum(one != INSTRUCTIONS for one in pinned.accepted),
            "changed": [shown_name(one) for one in pending if one in pinned.accepted],
            "new": [shown_name(one) for one in pending if one not in pinned.accepted],
            "removed": [shown_name(one) for one in pinned.removed],
            "instructions": INSTRUCTIONS in pinned.pending,
        }
        changes = [*row["changed"], *row["new"], *(["its instructions"] * row["instructions"])]
        notes = [f"not accepted: {', '.join(changes)}"] if changes else []
        notes += [f"removed: {', '.join(row['removed'])}"] if row["removed"] else []
        state = f"{counted(row['tools'], 'tool')}, {'; '.join(notes) or 'as accepted'}"
        rows.append(row)
        lines.append(f"{name}  {pinned.target}  {state}")
    empty = "Nothing is pinned yet: a server is pinned when it first starts."
    env.report(args, {"servers": rows}, *lines, empty=empty)


def _pins_of(
    args: argparse.Namespace, env: Environment, store: PinStore
) -> list[tuple[str, Pinned]]:
    found = [(key, one) for name, key, one in pinned_servers(env, store) if name == args.name]
    if not found:
        hint = f"list all pins with: {env.program} mcp pins"
        raise NotFound(f"there are no pins for a server '{args.name}'", hint=hint)
    return found


def _show_pins(args: argparse.Namespace, env: Environment, store: PinStore) -> None:
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for _, pinned in _pins_of(args, env, store):
        accepted = {key: one.text for key, one in pinned.accepted.items()}
        pending = {
            k: {"text": one.text, "diff": diff(pinned, k)} for k, one in pinned.pending.items()
        }
        row = {"target": pinned.target, "accepted": accepted, "pending": pending}
        rows.append(row | {"removed": list(pinned.removed)})
        for key, one in pending.items():
            what = "changed" if key in accepted else "new"
            lines.append(f"{shown_name(key)} ({what})\n{one['diff']}\n")
        lines += [f"{shown_name(key)} was removed\n" for key in pinned.removed]
        if pending:
            lines.append(f"Accept it with: {env.program} mcp pins accept {args.name}")
        elif not pinned.removed:
            tools = ", ".join(shown_name(key) for key in accepted if key != INSTRUCTIONS)
            lines.append(f"'{args.name}' matches what you accepted: {tools or 'no tools'}")
    env.report(args, {"name": args.name, "pins": rows}, *lines)


def _accept_pins(args: argparse.Namespace, env: Environment, store: PinStore) -> None:
    accepted: list[str] = []
    for key, pinned in _pins_of(args, env, store):
        for tool in args.tools:
            if tool not in pinned.pending and tool not in pinned.removed:
                raise NotFound(f"there is nothing to accept for '{args.name}/{tool}'")
        accepted += store.accept(key, args.tools or None)
    shown = [shown_name(one) for one in accepted]
    message = f"Accepted from '{args.name}': {', '.join(shown)}"
    nothing = f"There was nothing to accept for '{args.name}'."
    env.report(args, {"accepted": shown}, message if shown else nothing)


async def log_in_to_server(args: argparse.Namespace, env: Environment) -> None:
    config = _login_server(args, env)
    here = not args.no_browser and not _is_remote(env)
    can_paste = env.stdin.isatty() and sys.platform != "win32"

    def show(url: str, code: str | None) -> None:
        enter = "" if code is None else f" and enter the code {code}"
        env.warn(f"Open this address{enter} to log in to '{args.name}':\n\n    {url}\n")
        if code is None and not here:
            env.warn(_elsewhere(url, can_paste=can_paste))

    async def paste(problem: str | None) -> str:
        if problem is not None:
            env.warn(f"{problem} Paste the whole address.")
        await anyio.wait_readable(env.stdin)
        return env.stdin.readline()

    prompt = LoginPrompt(
        show=show,
        browse=open_browser if here else None,
        paste=paste if can_paste else None,
        prefer_code=not here,
    )
    await log_in(config, _logins(env), prompt)
    env.report(args, {"loggedIn": args.name}, f"Logged in to '{args.name}'.")


def _is_remote(env: Environment) -> bool:
    """Whether the user's browser is probably on another machine."""
    has_display = "DISPLAY" in env.environ or "WAYLAND_DISPLAY" in env.environ
    return "SSH_CONNECTION" in env.environ and not has_display


def _elsewhere(url: str, *, can_paste: bool) -> str:
    """How to finish the login in a browser on another machine."""
    redirect = parse_qs(urlsplit(url).query).get("redirect_uri", [""])[0]
    port = urlsplit(redirect).port
    text = (
        "If the browser runs on another machine, forward the port from there first:\n\n"
        f"    ssh -L {port}:127.0.0.1:{port} THIS-MACHINE\n"
    )
    if can_paste:
        text += (
            "\nor paste the address that the browser ends at here, although it shows an error.\n"
        )
    return text


async def log_out_of_server(args: argparse.Namespace, env: Environment) -> None:
    done = await _logins(env).log_out(_login_server(args, env))
    if not done.existed:
        message = f"There was no login to '{args.name}'."
    elif done.revoked:
        message = f"Logged out of '{args.name}'; its tokens were revoked."
    else:
        message = f"Logged out of '{args.name}'; the server may still accept the tokens until they expire."
    facts = {"loggedOut": args.name, "was": done.existed, "revoked": done.revoked}
    env.report(args, facts, message)


def _logins(env: Environment) -> "Logins":
    resolve = env.secrets().resolve_map
    hide = env.redactor.register
    return Logins(directory=env.paths.tokens, resolve_secrets=resolve, register=hide)


def _login_server(args: argparse.Namespace, env: Environment) -> McpServerConfig:
    servers = _configured(env)
    found = [config for name, config in servers if name == args.name]
    if not found:
        raise no_server(args.name, (name for name, _ in servers))
    for config in found:
        if config.auth is not None:
            return config
    message = f"MCP server '{args.name}' is not configured for a login"
    raise InvalidRequest(message, hint='add `auth: "oauth"` to it')
