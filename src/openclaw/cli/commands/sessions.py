"""List, read, search, export, copy and delete stored conversations.

Without an action, it lists the conversations, the most recently used first, and hides API
calls, scheduled jobs and orders without a session key unless you pass --all.
"""

import argparse
import json
import re
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from openclaw.cli import terminal
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_action, option, whole_number
from openclaw.cli.run_command import run_interruptible
from openclaw.config.sensitive import credentials_in_address
from openclaw.content.frame import pieces_of, unframed
from openclaw.core.clock import SystemClock
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, InvalidRequest, NotFound
from openclaw.secrets.refs import Secret
from openclaw.sessions.copying import copy_sessions, exported
from openclaw.sessions.open import is_address, open_store, store_path
from openclaw.sessions.records import (
    Entry,
    Hit,
    SessionInfo,
    StoreError,
    StoreMissing,
    Turn,
    header_json,
)
from openclaw.sessions.store import SessionStore
from openclaw.sessions.task_records import delete_session

if TYPE_CHECKING:
    from openclaw.sessions.copying import CopyReport

_LIMIT = 50
_MOST = 1_000_000


def register(parser: argparse.ArgumentParser) -> None:
    _common(parser)
    parser.set_defaults(action=_list, store=None, json=False, limit=_LIMIT, agent=None)
    actions = parser.add_subparsers(metavar="ACTION")
    listing = _action(actions, "list", _list, "list conversations (the default)")
    for place in (parser, listing):
        option(place, "--search TEXT", "only keys or titles that contain this")
        option(place, "--all", "include orders, API calls, jobs")
    show = _action(actions, "show", _show, "print a conversation, its latest entries last")
    export = _action(actions, "export", _export, "print a whole conversation")
    formats = "jsonl, with everything in it (the default), or md, to read"
    option(export, "--format FORMAT", formats, choices=("jsonl", "md"), default="jsonl")
    delete = _action(actions, "delete", _delete, "remove a conversation for good")
    for keyed in (show, export, delete):
        option(keyed, "KEY", "the conversation's key or id")
    option(show, "--raw", "print entries in full, as the model saw them")
    option(delete, "--yes", "delete without asking")
    copy = _action(actions, "copy", _copy, "copy all conversations from one store to another")
    option(copy, "FROM", "file, a path, or the address of a store", dest="source")
    option(copy, "TO", "the same; created if it doesn't exist", dest="target")
    search = _action(actions, "search", _search, "find words in all conversations")
    option(search, "TEXT…", "words that must all occur")


def _common(parser: argparse.ArgumentParser) -> None:
    hidden: Any = argparse.SUPPRESS
    option(parser, "--store STORE", "file, a path, or the address of a store", default=hidden)
    option(parser, "--agent ID", "only this agent's", default=hidden)
    limit = whole_number(1, _MOST)
    option(parser, "--limit N", f"how many (default: {_LIMIT})", type=limit, default=hidden)
    option(parser, "--json", "print JSON and nothing else", default=hidden)


def _action(actions: Any, name: str, action: object, summary: str) -> argparse.ArgumentParser:
    parser = add_action(actions, name, summary, action, json=False)
    _common(parser)
    return parser


async def _list(args: argparse.Namespace, env: Environment) -> None:
    found: Sequence[SessionInfo] = ()
    more, hidden = False, 0
    async with open_named_store(args.store, env) as store:
        if store is not None:
            chosen = not (args.all or args.search)
            page = await store.list_sessions(
                args.agent, limit=args.limit, search=args.search, conversations=chosen
            )
            found, more = page.sessions, bool(page.cursor)
            if chosen and not more and not args.agent and not args.json:
                hidden = await store.count_sessions() - len(found)
    if args.json:
        env.say_json({"sessions": [header_json(info) for info in found], "more": more})
        return
    if found:
        _print_table(env, found)
    else:
        env.say("No conversations yet." if not args.search else "No conversations match.")
    if more:
        env.say(f"The {len(found)} most recent; use --limit to see more.")
    if hidden:
        env.say(f"{hidden} more: orders, API calls and scheduled jobs. List them with --all.")


async def _show(args: argparse.Namespace, env: Environment) -> None:
    async with _found(args, env) as (store, info):
        after = max(0, info.entries - args.limit)
        entries = await store.entries(info.ref, after=after, limit=args.limit)
        unfinished = await store.unfinished_turns(info.ref)
    if not args.json:
        _print_session(env, info, entries, unfinished, raw=args.raw)
        return
    turns = [
        {
            "id": turn.id,
            "state": str(turn.state),
            "startedAt": turn.started_ms,
            "openCalls": [call.call_id for call in turn.open_calls],
        }
        for turn in unfinished
    ]
    facts = {"session": header_json(info), "unfinishedTurns": turns}
    env.say_json(facts | {"entries": [entry.to_json() for entry in entries]})


async def _export(args: argparse.Namespace, env: Environment) -> None:
    async with _found(args, env) as (store, info):
        if args.format == "md":
            await _export_markdown(env, store, info)
            return
        async for line in exported(store, info.ref):
            env.say_json(line, one_line=True)


async def _export_markdown(env: Environment, store: SessionStore, info: SessionInfo) -> None:
    env.say(f"# {terminal.visible(info.title or info.key)}")
    last = 0
    while page := await store.entries(info.ref, after=last):
        for entry in page:
            _print_markdown(env, entry)
        last = page[-1].seq


def _print_markdown(env: Environment, entry: Entry) -> None:
    kind, data, at_ms = entry.kind, entry.data, entry.at_ms
    text = terminal.visible_lines(unframed(entry.text)).strip()
    if kind == "tool_call":
        arguments = json.dumps(data.get("arguments") or {}, ensure_ascii=False, default=str)
        text = f"**{data.get('label') or data.get('name')}**\n\n{_fenced(arguments)}"
    elif kind == "tool_result":
        text = _fenced(text)
    elif kind == "user_message":
        text = f"## You, {terminal.local_time(at_ms)}\n\n{text}"
    elif kind == "assistant_message":
        text = f"## Agent, {terminal.local_time(at_ms)}\n\n{text}" if text else ""
    if text:
        env.say(f"\n{text}")


def _fenced(text: str) -> str:
    longest = max(map(len, re.findall("`+", text)), default=2)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def _delete(args: argparse.Namespace, env: Environment) -> None:
    async def find() -> SessionInfo:
        async with _found(args, env) as (_, info):
            return info

    async def delete() -> None:
        async with open_named_store(args.store, env) as store:
            if store is not None:
                await delete_session(store, info, SystemClock().now_ms())

    info = run_interruptible(env, find)
    messages = terminal.counted(info.messages, "message")
    title = f" ({terminal.visible(env.redactor.redact(info.title))})" if info.title else ""
    # Asked outside of an event loop, which would keep Ctrl-C from ending the question.
    question = f"Delete '{terminal.visible(info.key)}'{title} with {messages}"
    if not env.confirms(args, question, "delete it"):
        env.say("Nothing was deleted.")
        return
    run_interruptible(env, delete)
    facts = {"deleted": {"id": info.id, "agent": info.agent, "key": info.key}}
    env.report(args, facts, f"Deleted '{terminal.visible(info.key)}' with {messages}.")


async def _search(args: argparse.Namespace, env: Environment) -> None:
    hits: Sequence[Hit] = ()
    async with open_named_store(args.store, env) as store:
        if store is not None:
            hits = await store.search(" ".join(args.text), agent=args.agent, limit=args.limit)
    if args.json or not hits:
        rows = [
            {
                "session": header_json(hit.session),
                "seq": hit.seq,
                "kind": str(hit.kind),
                "at": hit.at_ms,
                "snippet": hit.snippet,
            }
            for hit in hits
        ]
        env.report(args, {"hits": rows}, "Nothing found.")
        return
    for hit in hits:
        speaker = _SPEAKERS.get(hit.kind, (str(hit.kind), ""))[0]
        place = f"  {terminal.local_time(hit.at_ms)}  {speaker}, entry {hit.seq}"
        _write(env, terminal.visible(hit.session.key), "bold", place)
        env.say("  " + terminal.visible(env.redactor.redact(" ".join(hit.snippet.split()))))


@asynccontextmanager
async def _found(
    args: argparse.Namespace, env: Environment
) -> AsyncGenerator[tuple[SessionStore, SessionInfo]]:
    async with open_named_store(args.store, env) as store:
        missing = f"there is no session '{args.key}'"
        if store is None:
            raise NotFound(missing)
        found = await store.find_sessions(args.key, args.agent)
        if not found and "\\" in args.key:  # the list escapes a key that cannot be printed
            every = await store.list_sessions(args.agent, limit=None)
            found = [info for info in every.sessions if terminal.visible(info.key) == args.key]
        if not found:
            raise NotFound(missing, hint="list them with: openclaw sessions --all")
        if len(found) > 1:
            agents = ", ".join(info.agent for info in found)
            message = f"several agents have a session '{args.key}': {agents}; use --agent"
            raise InvalidRequest(message)
        yield store, found[0]


_TELL_EVERY = 100  # sessions between two lines


async def _copy(args: argparse.Namespace, env: Environment) -> int:
    """Copying may be interrupted and restarted at any time. FROM is only read."""
    if args.source == args.target:
        raise InvalidRequest("FROM and TO are the same store")
    async with open_named_store(args.source, env) as source:
        if source is None:
            raise NotFound(f"there is no session store at {args.source}")
        async with open_named_store(args.target, env, create=True) as target:
            assert target is not None
            total = await source.count_sessions()

            def tell(report: "CopyReport") -> None:
                if report.seen % _TELL_EVERY == 0:
                    done = f"{report.seen} of {total} conversations"
                    env.warn(f"{done}, {report.entries} entries copied")

            report = await copy_sessions(source, target, tell)
    facts = {
        "copied": report.copied,
        "unchanged": report.unchanged,
        "entries": report.entries,
        "refused": [
            {"id": info.id, "agent": info.agent, "key": info.key, "reason": reason}
            for info, reason in report.refused
        ],
    }
    entries = "1 entry" if report.entries == 1 else f"{report.entries} entries"
    summary = f"Copied {terminal.counted(report.copied, 'conversation')} with {entries}"
    env.report(args, facts, f"{summary}; {report.unchanged} were there already.")
    for info, reason in report.refused if not args.json else ():
        env.warn(f"not copied: '{terminal.visible(info.key)}' of agent '{info.agent}': {reason}")
    return EXIT_FAILED if report.refused else EXIT_OK


# ---- opening the session store that a command names, for reading


@asynccontextmanager
async def open_named_store(
    spec: str | None, env: Environment, *, create: bool = False
) -> AsyncGenerator[SessionStore | None]:
    """The store that `spec` names, or else the configured one.

    None if nothing was ever stored there: reading must not create one. If `spec` names a store that
    doesn't exist, that is an error, unless it is to be created.
    """

    async def resolve(text: str) -> Secret:
        return await env.secrets().resolve_text(text)

    where, named = spec or env.config.sessions.store, spec not in (None, "file")
    if is_address(where):
        env.hide(credentials_in_address(where))
    elif not create and not (path := store_path(where, env.paths)).exists():
        if named:
            raise StoreError(f"there is no session store at {path}")
        yield None
        return
    try:
        async with open_store(where, env.paths, resolve=resolve, create=create) as store:
            yield store
    except StoreMissing:
        if named:
            raise
        yield None


# ---- output for people. Text from conversations cannot control the terminal.

_ENTRY_CHARS = 4000
_ARGUMENT_CHARS = 200
_LEAST_WIDTH = 80
_SPEAKERS = {
    "user_message": ("user", "bold cyan"),
    "assistant_message": ("assistant", "bold green"),
    "tool_call": ("tool call", "magenta"),
    "tool_result": ("tool result", "magenta"),
    "compaction": ("summary", "yellow"),
    "notice": ("notice", "yellow"),
    "turn_cancelled": ("cancelled", "yellow"),
    "turn_error": ("error", "red"),
    "turn_lost": ("interrupted", "red"),
}


def _print_table(env: Environment, sessions: Sequence[SessionInfo]) -> None:
    """One conversation per row; keys are never shortened, since people type them next."""
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    several = len({info.agent for info in sessions}) > 1
    table.add_column("KEY", overflow="fold", min_width=12)
    for heading in ("AGENT", "TITLE") if several else ("TITLE",):
        table.add_column(heading, overflow="fold")
    for heading in ("MSGS", "TOKENS", "LAST USED"):
        table.add_column(heading, justify="right", no_wrap=True)
    for info in sessions:
        texts = [info.key, *([info.agent] if several else ()), info.title or ""]
        numbers = [_short(info.messages), _short(info.input_tokens + info.output_tokens)]
        cells = [Text(terminal.visible(env.redactor.redact(text))) for text in texts]
        table.add_row(*cells, *numbers, terminal.local_time(info.updated_ms))
    terminal.print_unpadded(env.stdout, env.environ, [table], _LEAST_WIDTH)


def _print_session(
    env: Environment,
    info: SessionInfo,
    entries: Sequence[Entry],
    unfinished: Sequence[Turn],
    *,
    raw: bool,
) -> None:
    env.say(terminal.visible(f"{info.key} - {info.title}" if info.title else info.key))
    env.say(
        f"agent {terminal.visible(info.agent)}, {terminal.counted(info.messages, 'message')}, {info.input_tokens} tokens in, "
        f"{info.output_tokens} out, {terminal.local_time(info.created_ms)} to {terminal.local_time(info.updated_ms)}"
    )
    if entries and entries[0].seq > 1:
        env.say(f"(entries {entries[0].seq} to {entries[-1].seq}; use --limit to see more)")
    for entry in entries:
        only_calls = entry.kind == "assistant_message" and not entry.text.strip()
        if entry.kind in _SPEAKERS and (raw or not only_calls):
            _print_entry(env, entry, raw=raw)
    for turn in unfinished:
        calls = terminal.counted(len(turn.open_calls), "call")
        unknown = f", with {calls} of unknown outcome" if turn.open_calls else ""
        state = "is running" if turn.state == "running" else "was interrupted"
        env.say(f"\nTurn {terminal.visible(turn.id)} {state}{unknown}.")


def _print_entry(env: Environment, entry: Entry, *, raw: bool) -> None:
    speaker, style = _SPEAKERS[entry.kind]
    _write(env, "\n" + speaker, style, f"  {terminal.local_time(entry.at_ms)}")
    words = entry.text or str(entry.data.get("detail") or entry.data.get("name") or "")
    given = entry.data.get("arguments") if entry.kind == "tool_call" else None
    if given:
        text = json.dumps(given, ensure_ascii=False, default=str)
        cut = not raw and len(text) > _ARGUMENT_CHARS
        words += f" {text[:_ARGUMENT_CHARS]}…" if cut else f" {text}"
    if raw:
        env.stdout.write(f"{terminal.visible_lines(env.redactor.redact(words))}\n")
        return
    for piece, sender in pieces_of(words):
        if sender:
            _write(env, "", "", f"from {terminal.visible(sender)}")
        text = env.redactor.redact(piece)
        more = len(text) - _ENTRY_CHARS
        note = f"\n[… {more} more characters; see --raw]" if more > 0 else ""
        if text:
            env.stdout.write(f"{terminal.visible_lines(text[:_ENTRY_CHARS])}{note}\n")


def _write(env: Environment, text: str, style: str, dim: str) -> None:
    from rich.text import Text

    line = Text.assemble((env.redactor.redact(text), style), (env.redactor.redact(dim), "dim"))
    terminal.console(env.stdout, env.environ).print(line, soft_wrap=True)


def _short(count: int) -> str:
    return str(count) if count < 10_000 else f"{count / 1000:.0f}k"
