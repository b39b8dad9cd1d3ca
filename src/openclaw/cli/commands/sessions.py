"""List, read, search, export, copy and delete stored conversations.

Without an action, it lists the conversations, the most recently used first, and hides orders from
MCP clients, API calls and scheduled jobs unless you pass --all.
"""

import argparse
import json
from collections.abc import AsyncGenerator, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_action
from openclaw.cli.render.terminal import counted
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, InvalidRequest, NotFound

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig
    from openclaw.secrets.refs import Secret
    from openclaw.sessions.copying import CopyReport
    from openclaw.sessions.model import Page, SessionInfo
    from openclaw.sessions.store import SessionStore

_LIMIT = 50
_MOST = 1_000_000


def register(parser: argparse.ArgumentParser) -> None:
    _common(parser)
    parser.set_defaults(action=_list, store=None, json=False, limit=_LIMIT, agent=None)
    actions = parser.add_subparsers(metavar="ACTION")
    listing = _action(actions, "list", _list, "list conversations (the default)")
    for place in (parser, listing):
        place.add_argument("--search", metavar="TEXT", help="only keys or titles that contain this")
        place.add_argument("--all", action="store_true", help="include orders, API calls, jobs")
    show = _action(actions, "show", _show, "print a conversation, its latest entries last")
    export = _action(actions, "export", _export, "print a whole conversation as JSON lines")
    delete = _action(actions, "delete", _delete, "remove a conversation for good")
    for keyed in (show, export, delete):
        keyed.add_argument("key", metavar="KEY", help="the conversation's key or id")
    show.add_argument(
        "--raw", action="store_true", help="print entries in full, as the model saw them"
    )
    delete.add_argument("--yes", action="store_true", help="delete without asking")
    copy = _action(actions, "copy", _copy, "copy all conversations from one store to another")
    copy.add_argument("source", metavar="FROM", help="file, a path, or the address of a store")
    copy.add_argument("target", metavar="TO", help="the same; created if it doesn't exist")
    search = _action(actions, "search", _search, "find words in all conversations")
    search.add_argument("text", metavar="TEXT", nargs="+", help="words that must all occur")


def run(args: argparse.Namespace, env: Environment) -> int:
    import anyio

    return anyio.run(_copy if args.action is _copy else _run, args, env) or EXIT_OK


def _common(parser: argparse.ArgumentParser) -> None:
    hidden: Any = argparse.SUPPRESS
    parser.add_argument(
        "--store", metavar="STORE", default=hidden, help="file, a path, or the address of a store"
    )
    parser.add_argument("--agent", metavar="ID", default=hidden, help="only this agent's")
    parser.add_argument(
        "--limit", type=_positive, metavar="N", default=hidden, help=f"how many (default: {_LIMIT})"
    )
    parser.add_argument(
        "--json", action="store_true", default=hidden, help="print JSON and nothing else"
    )


def _action(actions: Any, name: str, action: object, summary: str) -> argparse.ArgumentParser:
    parser = add_action(actions, name, summary, action, json=False)
    _common(parser)
    return parser


def _positive(text: str) -> int:
    # Compared by its length first: Python refuses to read a number of thousands of digits.
    few = text.isascii() and text.isdigit() and len(text) <= len(str(_MOST))
    if not few or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"must be a whole number from 1 to {_MOST}, not {text!r}")
    return int(text)


async def _run(args: argparse.Namespace, env: Environment) -> None:
    async with opened(args.store, env) as store:
        if store is not None:
            await args.action(args, env, store)
        elif args.action is _list:
            _print_page(args, env, None)
        elif args.action is _search:
            _print_hits(args, env, [])
        else:
            raise NotFound(f"there is no session '{args.key}'")


async def _list(args: argparse.Namespace, env: Environment, store: "SessionStore") -> None:
    page = await store.list_sessions(
        args.agent,
        limit=args.limit,
        search=args.search,
        conversations=not (args.all or args.search),
    )
    _print_page(args, env, page)
    if not args.json and not args.all and not args.search and not page.cursor and not args.agent:
        hidden = await store.count_sessions() - len(page.sessions)
        if hidden:
            env.say(f"{hidden} more: orders, API calls and scheduled jobs. List them with --all.")


def _print_page(args: argparse.Namespace, env: Environment, page: "Page | None") -> None:
    from openclaw.cli.render import sessions as sessions_view
    from openclaw.sessions.model import header_json

    found: Sequence[SessionInfo] = page.sessions if page else ()
    more = bool(page and page.cursor)
    if args.json:
        env.say_json({"sessions": [header_json(info) for info in found], "more": more})
    elif found:
        sessions_view.print_sessions(env, found, more=more)
    else:
        env.say("No conversations yet." if not args.search else "No conversations match.")


async def _show(args: argparse.Namespace, env: Environment, store: "SessionStore") -> None:
    from openclaw.cli.render import sessions as sessions_view
    from openclaw.sessions.model import header_json

    info = await _found(args, store)
    entries = await store.entries(
        info.ref, after=max(0, info.entries - args.limit), limit=args.limit
    )
    unfinished = await store.unfinished_turns(info.ref)
    if args.json:
        turns = [sessions_view.turn_json(turn) for turn in unfinished]
        facts = {"session": header_json(info), "unfinishedTurns": turns}
        env.say_json(facts | {"entries": [entry.to_json() for entry in entries]})
    else:
        sessions_view.print_session(env, info, entries, unfinished, raw=args.raw)


async def _export(args: argparse.Namespace, env: Environment, store: "SessionStore") -> None:
    from openclaw.sessions.copying import exported

    info = await _found(args, store)
    async for line in exported(store, info.ref):
        text = json.dumps(line, ensure_ascii=False, separators=(",", ":"))
        # Readable in any script; escaped where it would not print.
        env.say(text if text.isprintable() else json.dumps(line, separators=(",", ":")))


async def _delete(args: argparse.Namespace, env: Environment, store: "SessionStore") -> None:
    from openclaw.cli.render.sessions import one_line
    from openclaw.core.clock import SystemClock
    from openclaw.sessions.tasks import delete_session

    info = await _found(args, store)
    if not args.yes and not _agreed(args, env, info):
        env.say("Nothing was deleted.")
        return
    await delete_session(store, info, SystemClock().now_ms())
    facts = {"deleted": {"id": info.id, "agent": info.agent, "key": info.key}}
    env.report(
        args, facts, f"Deleted '{one_line(info.key)}' with {counted(info.messages, 'message')}."
    )


def _agreed(args: argparse.Namespace, env: Environment, info: "SessionInfo") -> bool:
    from openclaw.cli.render.sessions import one_line

    if args.json or not (env.stdin.isatty() and env.stdout.isatty()):
        raise InvalidRequest("nobody can be asked here; add --yes to delete it for good")
    title = f" ({one_line(env.redactor.redact(info.title))})" if info.title else ""
    what = f"'{one_line(info.key)}'{title} with {counted(info.messages, 'message')}"
    return env.confirms(f"Delete {what}, for good?")


async def _search(args: argparse.Namespace, env: Environment, store: "SessionStore") -> None:
    hits = await store.search(" ".join(args.text), agent=args.agent, limit=args.limit)
    _print_hits(args, env, hits)


def _print_hits(args: argparse.Namespace, env: Environment, hits: list[Any]) -> None:
    from openclaw.cli.render import sessions as sessions_view

    if args.json:
        env.say_json({"hits": [sessions_view.hit_json(hit) for hit in hits]})
    elif hits:
        sessions_view.print_hits(env, hits)
    else:
        env.say("Nothing found.")


async def _found(args: argparse.Namespace, store: "SessionStore") -> "SessionInfo":
    found = await store.find_sessions(args.key, args.agent)
    if not found and "\\" in args.key:  # as the list shows a key that cannot be printed
        from openclaw.cli.render.sessions import one_line

        every = await store.list_sessions(args.agent, limit=None)
        found = [info for info in every.sessions if one_line(info.key) == args.key]
    if not found:
        raise NotFound(
            f"there is no session '{args.key}'", hint="list them with: openclaw sessions --all"
        )
    if len(found) > 1:
        agents = ", ".join(info.agent for info in found)
        raise InvalidRequest(f"several agents have a session '{args.key}': {agents}; use --agent")
    return found[0]


# It may be stopped at any time and started again: it goes on where it was. FROM is only read.

_TELL_EVERY = 100  # sessions between two lines where there is no terminal to show each step on


async def _copy(args: argparse.Namespace, env: Environment) -> int:
    from openclaw.sessions.copying import copy_sessions

    if args.source == args.target:
        raise InvalidRequest("FROM and TO are the same store")
    async with (
        _archive(args.source, env, create=False) as source,
        _archive(args.target, env, create=True) as target,
    ):
        shown = _Progress(env, await source.count_sessions())
        report = await copy_sessions(source, target, shown)
        shown.end()
    _say(args, env, report)
    return EXIT_FAILED if report.refused else EXIT_OK


@asynccontextmanager
async def _archive(spec: str, env: Environment, *, create: bool) -> "AsyncGenerator[SessionStore]":
    from openclaw.sessions.open import is_server, open_store, store_path
    from openclaw.sessions.store import StoreMissing

    if is_server(spec):
        found = open_server(spec, env, create=create)
    else:
        path = store_path(spec, env.paths)
        if not create and not path.exists():
            raise StoreMissing(f"there is no session store at {path}")
        found = open_store(spec, env.paths)
    async with found as store:
        yield store


class _Progress:
    """A line that counts up on a terminal, and one now and then elsewhere; on stderr."""

    def __init__(self, env: Environment, total: int) -> None:
        self._env = env
        self._total = total
        self._terminal = env.stderr.isatty()

    def __call__(self, report: "CopyReport") -> None:
        line = f"{report.seen} of {self._total} conversations, {report.entries} entries copied"
        if self._terminal:
            self._env.stderr.write(f"\r{line}\x1b[K")
            self._env.stderr.flush()
        elif report.seen % _TELL_EVERY == 0:
            self._env.warn(line)

    def end(self) -> None:
        if self._terminal:
            self._env.stderr.write("\r\x1b[K")


def _say(args: argparse.Namespace, env: Environment, report: "CopyReport") -> None:
    from openclaw.cli.render.sessions import one_line

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
    told = f"Copied {counted(report.copied, 'conversation')} with {entries}"
    env.report(args, facts, f"{told}; {report.unchanged} were there already.")
    for info, reason in report.refused if not args.json else ():
        env.warn(f"not copied: '{one_line(info.key)}' of agent '{info.agent}': {reason}")


# ---- the session store that a command means, for looking into it


@asynccontextmanager
async def opened(
    spec: str | None, env: Environment, loaded: "LoadedConfig | None" = None
) -> "AsyncGenerator[SessionStore | None]":
    """The store that `spec` names, or else the configured one.

    None where nothing was ever stored there: looking must not create one. A store that was asked
    for by name and is not there is an error.
    """
    from openclaw.sessions.open import is_server, open_store, store_path
    from openclaw.sessions.store import StoreMissing, StoreUnavailable

    where = spec or (loaded or env.load_config()).config.sessions.store
    if is_server(where):
        try:
            async with open_server(where, env, loaded) as store:
                yield store
        except StoreMissing:
            if spec is not None and loaded is None:
                raise
            yield None
        return
    path = store_path(where, env.paths)
    if path.exists():
        async with open_store(where, env.paths) as store:
            yield store
    elif loaded is None and spec not in (None, "file"):
        raise StoreUnavailable(f"there is no session store at {path}")
    else:
        yield None


@asynccontextmanager
async def open_server(
    spec: str, env: Environment, loaded: "LoadedConfig | None" = None, *, create: bool = False
) -> "AsyncGenerator[SessionStore]":
    """The store on a database server; what is secret in its address stays so."""
    from openclaw.config.sensitive import credentials_in_address
    from openclaw.sessions.open import open_store

    for value in credentials_in_address(spec):
        env.redactor.register(value)

    async def resolve(text: str) -> "Secret":
        from openclaw.runtime.host import open_secrets

        config = (loaded or env.load_config()).config
        return await open_secrets(config, env.environ, env.redactor).resolve_text(text)

    async with open_store(spec, env.paths, resolve=resolve, create=create) as store:
        yield store
