"""Set OpenClaw up: choose a model, take over MCP servers, write openclaw.json.

It looks for keys in the environment, by their names alone, and for MCP servers that Claude Code,
Claude Desktop, Cursor, VS Code, Codex, Gemini, Windsurf and Zed have; asks what to do with them; and
shows every change before it is written. A file that is there is only added to, and the old one is
kept beside it. Credentials become secret:// references.
"""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openclaw.cli.argv_text import read_line
from openclaw.cli.commands.mcp_config import store_all
from openclaw.cli.dispatch import EXIT_INTERRUPTED
from openclaw.cli.environment import Environment
from openclaw.cli.render.terminal import fitted
from openclaw.cli.setup.discovery import Found, ModelOffer, look, shown_path
from openclaw.cli.setup.other_clients import CLIENTS, client_file
from openclaw.cli.setup.plan import FileChange, Plan, Written, make_plan, removal, write_all
from openclaw.config.load import parse_config, read_text
from openclaw.config.paths import config_path, private_directory
from openclaw.core.clock import SystemClock
from openclaw.core.errors import EXIT_OK, InvalidConfig, InvalidRequest, ModelUnavailable
from openclaw.mcp_client.bounds import printable

ALL, NONE = "all", "none"


class Left(Exception):
    """Raised when the person does not want to go on."""


@dataclass(frozen=True, slots=True)
class Line:
    """One of the things to choose from: what is typed for it, and what is shown."""

    name: str
    shown: str


class Asker:
    """Asks one question at a time; an empty answer takes what is suggested."""

    def __init__(self, env: Environment) -> None:
        self._env = env

    def one(
        self,
        question: str,
        lines: Sequence[Line],
        *,
        other: str,
        objection: Callable[[str], InvalidRequest | None],
    ) -> str:
        """One of these, the first where nothing is typed; or something else with a slash.

        `objection` says what is wrong with that, so that it is asked for again.
        """
        self._show(question, lines)
        hint = f", or {other}"
        numbers = "1" if len(lines) == 1 else f"1 to {len(lines)}"
        while True:
            said = self._read(f"  a number{hint} [1]: ") or "1"
            if "/" in said:
                wrong = objection(said)
                if wrong is None:
                    return said
                self._env.say(fitted(f"  {wrong.message}; {wrong.hint}", self._env.stdout, hang=2))
                continue
            try:
                [chosen] = chosen_names(said, lines, "number")
            except (InvalidRequest, ValueError):
                self._env.say(f"  {numbers}{hint}, please")
            else:
                return chosen

    def several(self, question: str, lines: Sequence[Line], *, suggested: str) -> list[str]:
        self._show(question, lines)
        while True:
            said = self._read(f"  numbers, {ALL} or {NONE} [{suggested}]: ") or suggested
            try:
                return chosen_names(said, lines, "number")
            except InvalidRequest as error:
                self._env.say(f"  {error.message}")

    def yes(self, question: str) -> bool:
        """Whether the person agrees, having seen what to: Enter is a yes, as it is to what was suggested."""
        return self._read(f"{question} [Y/n] ").casefold() in ("", "y", "yes")

    def _show(self, question: str, lines: Sequence[Line]) -> None:
        self._env.say(fitted(f"\n{question}", self._env.stdout))
        for number, line in enumerate(lines, 1):
            self._env.say(fitted(f"  {number}. {line.shown}", self._env.stdout, hang=5))

    def _read(self, prompt: str) -> str:
        self._env.stdout.write(prompt)
        self._env.stdout.flush()
        line = read_line(self._env.stdin)
        if not line:  # Ctrl-D
            raise Left
        return line.strip()


def chosen_names(said: str, lines: Sequence[Line], what: str) -> list[str]:
    """The names that these words mean: `all`, `none`, numbers or names by commas or spaces."""
    if said.casefold() == ALL:
        return [line.name for line in lines]
    if said.casefold() == NONE:
        return []
    names = [line.name for line in lines]
    chosen: list[str] = []
    for word in said.replace(",", " ").split():
        if word.isascii() and word.isdigit() and 1 <= int(word) <= len(lines):
            name = names[int(word) - 1]
        elif word in names:
            name = word
        else:
            raise InvalidRequest(f"there is no {what} {word!r}")
        if name not in chosen:
            chosen.append(name)
    return chosen


def by_option(said: str, names: Sequence[str], what: str, hint: Callable[[], str]) -> list[str]:
    """The names that an option gives; raises `InvalidRequest` for one that there is not."""
    try:
        return chosen_names(said, [Line(name, name) for name in names], what)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, hint=hint()) from None


AUTO = "auto"
_BESIDE = 17  # columns that the names of what was found take


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--yes",
        action="store_true",
        help="ask nothing and take what is suggested; other programs' files are changed only "
        "with --register",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes and write nothing")
    parser.add_argument(
        "--model", metavar="MODEL", help=f"provider/model, or {AUTO}: chosen anew at every start"
    )
    parser.add_argument(
        "--import",
        dest="take",
        metavar="NAMES",
        help=f"the other programs' servers to take over: {ALL}, {NONE}, or names by commas",
    )
    parser.add_argument(
        "--register",
        metavar="NAMES",
        help=f"offer OpenClaw to these programs: {', '.join(CLIENTS)}, {ALL} that are here, {NONE}",
    )
    parser.add_argument(
        "--unregister", metavar="NAMES", help="take OpenClaw out of these programs, and stop there"
    )
    parser.add_argument(
        "--replace", action="store_true", help="write a new file where there is one; it is kept"
    )
    parser.add_argument(
        "--no-sandbox",
        action="store_true",
        help="let the servers that are taken over run as you do; without this, they are confined "
        "if this machine can do that",
    )
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


@dataclass(frozen=True, slots=True)
class Wishes:
    model: ModelOffer | None
    servers: tuple[str, ...]
    clients: tuple[str, ...]


def run(args: argparse.Namespace, env: Environment) -> int:
    """Look, ask, show, write, check."""
    asking = env.stdin.isatty() and env.stdout.isatty() and not (args.yes or args.json)
    if not asking and not args.yes and not args.dry_run:
        raise InvalidRequest(
            "nobody can be asked here; say --yes to take what is suggested, or --dry-run to see it",
            hint=f"{env.program} init --help lists the options that answer the questions",
        )
    asker = Asker(env) if asking else None
    try:
        if args.unregister is not None:
            return _unregister(args, env, asker)
        return _set_up(args, env, asker)
    except (Left, KeyboardInterrupt):
        env.say("\nNothing was written.")
        return EXIT_INTERRUPTED


def _set_up(args: argparse.Namespace, env: Environment, asker: Asker | None) -> int:
    path = env.config_option or config_path(env.environ)
    text = None if args.replace else _present(path, env)
    found = look(env)
    if asker is not None:
        _introduce(env, found, path, fresh=text is None)
    wishes = _wishes(args, env, found, asker, text)
    plan = make_plan(
        env,
        found,
        path,
        text,
        model=wishes.model,
        servers=wishes.servers,
        clients=wishes.clients,
        sandbox=not args.no_sandbox,
    )
    if not args.json:
        _show(env, plan, whole=args.dry_run or not args.yes)
    if args.dry_run or not _agreed(plan, asker):
        _report(args, env, plan, [])
        return EXIT_OK
    if plan.changes and path.parent == env.paths.root:
        private_directory(path.parent)
    where = store_all(env, plan.references)
    written = write_all(plan.changes, SystemClock())
    if where and not args.json:
        env.say(f"\nStored the servers' credentials in {where}.")
    _report(args, env, plan, written)
    return EXIT_OK


def _present(path: Path, env: Environment) -> str | None:
    """The file's text where there is one with something in it, provided that it holds."""
    text = read_text(path)
    if text is None or not text.strip():
        return None
    try:
        loaded = parse_config(text, env.environ, source=path)
    except InvalidConfig as error:
        error.hint = "mend it, or start afresh with --replace, which keeps the old one"
        raise
    for value in loaded.credentials:
        env.redactor.register(value)
    return text


def _introduce(env: Environment, found: Found, path: Path, *, fresh: bool) -> None:
    def say(text: str) -> None:
        env.say(fitted(text, env.stdout, hang=_BESIDE))

    env.say(
        fitted(
            "Setting up OpenClaw. Nothing is written before you have seen it; Ctrl-C leaves.\n",
            env.stdout,
        )
    )
    titles = [CLIENTS[name].title for name in found.clients]
    state = "will be made" if fresh else "is there and will only be added to"
    say(f"  configuration  {shown_path(path, env.environ)} {state}")
    say(f"  model keys     {', '.join(found.keys) or 'none in the environment'}")
    if found.credentials:
        say(f"  other keys     {', '.join(found.credentials)}")
    say(f"  programs       {', '.join(titles) or 'none that is known'}")
    for note in found.notes:
        say(f"  note           {printable(note)}")


def _wishes(
    args: argparse.Namespace,
    env: Environment,
    found: Found,
    asker: Asker | None,
    text: str | None,
) -> Wishes:
    return Wishes(
        _model(args, env, found, asker, text),
        _servers(args, found, asker),
        _clients(args, found, asker),
    )


def _model(
    args: argparse.Namespace,
    env: Environment,
    found: Found,
    asker: Asker | None,
    text: str | None,
) -> ModelOffer | None:
    """The model to write; None where the file has one, or where it is left to what there is."""
    from openclaw.cli.setup.plan import MODEL
    from openclaw.config.json5 import parse

    said: str | None = args.model
    if said is None and text is not None and parse(text).find(MODEL) is not None:
        return None  # it has one
    suggested = found.models[0]
    if said is None and asker is None:
        # Without a key nothing is written, so that one that comes later is used.
        return suggested if suggested.variable else None
    if said is None and asker is not None:
        lines = [Line(one.ref, f"{one.ref}  ({one.reason})") for one in found.models]
        if not suggested.variable:
            lines.insert(0, Line(AUTO, _automatic(suggested)))
        said = asker.one(
            "Which model should answer?",
            lines,
            other="provider/model",
            objection=lambda ref: _objection(ref, env, text),
        )
    elif said not in (None, AUTO) and (wrong := _objection(str(said), env, text)) is not None:
        raise wrong
    if said == AUTO:
        return None
    known = next((one for one in found.models if one.ref == said), None)
    if known is not None or said is None:
        return known
    provider = said.partition("/")[0]
    key = next((one.variable for one in found.models if one.provider == provider), None)
    return ModelOffer(said, "as you said", key)


def _automatic(now: ModelOffer) -> str:
    return f"{AUTO}  (at every start: that of a key in the environment, else {now.ref})"


def _objection(ref: str, env: Environment, text: str | None) -> InvalidRequest | None:
    from openclaw.models.choose import resolve

    loaded = parse_config(text or "{}", env.environ, source=config_path(env.environ))
    try:
        resolve(ref, loaded.config.models.providers, env.environ)
    except ModelUnavailable as error:
        return InvalidRequest(error.message, hint=error.hint)
    return None


def _servers(args: argparse.Namespace, found: Found, asker: Asker | None) -> tuple[str, ...]:
    names = [one.server.name for one in found.servers]
    if args.take is not None:
        return tuple(by_option(args.take, names, "MCP server", lambda: _there_are(names)))
    if asker is None or not names:
        return tuple(names)
    lines = [
        Line(
            one.server.name,
            printable(f"{one.server.name}  ({CLIENTS[one.client].title}: {one.target[:60]})"),
        )
        for one in found.servers
    ]
    return tuple(
        asker.several("Which of your MCP servers may the agent use?", lines, suggested=ALL)
    )


def _clients(args: argparse.Namespace, found: Found, asker: Asker | None) -> tuple[str, ...]:
    if args.register is not None:
        here = tuple(found.clients)
        wanted = here if args.register.casefold() == ALL else None
        return wanted or tuple(by_option(args.register, list(CLIENTS), "program", _known_clients))
    if asker is None or not found.clients:
        return ()
    lines = [Line(name, f"{CLIENTS[name].title}  ({path})") for name, path in found.clients.items()]
    question = "Which programs may give OpenClaw orders? They get the tool order_openclaw."
    return tuple(asker.several(question, lines, suggested=NONE))


def _known_clients() -> str:
    return f"known are: {', '.join(CLIENTS)}"


def _there_are(names: Any) -> str:
    return printable(f"there are: {', '.join(names)}") if names else "there are none"


def _show(env: Environment, plan: Plan, *, whole: bool) -> None:
    for note in plan.notes:
        env.say(f"note: {printable(note)}")
    for change in plan.changes if whole else ():
        env.say("")
        for line in change.difference(env.redactor.redact):
            env.say(line)


def _agreed(plan: Plan, asker: Asker | None) -> bool:
    if asker is None or not plan.changes:
        return True
    return asker.yes("\nWrite this?")


def _report(args: argparse.Namespace, env: Environment, plan: Plan, written: list[Written]) -> None:
    from openclaw.cli.setup.plan import report, report_json

    if args.json:
        report_json(env, plan, written)
    elif not written:
        env.say("There is nothing to change." if not plan.changes else "Nothing was written.")
    else:
        report(env, plan, written)


def _unregister(args: argparse.Namespace, env: Environment, asker: Asker | None) -> int:
    names = by_option(args.unregister, list(CLIENTS), "program", _known_clients)
    changes: list[FileChange] = []
    for name in names:
        path = client_file(name, env.environ)
        if path is not None:
            changes.append(removal(path, CLIENTS[name]))
    plan = Plan(changes=tuple(one for one in changes if one.changes_anything()))
    if not args.json:
        _show(env, plan, whole=not args.yes)
    agreed = not args.dry_run and _agreed(plan, asker)
    _report_removed(args, env, write_all(plan.changes, SystemClock()) if agreed else [], plan)
    return EXIT_OK


def _report_removed(
    args: argparse.Namespace, env: Environment, written: list[Written], plan: Plan
) -> None:
    if args.json:
        env.say_json({"written": [str(one.path) for one in written]})
    elif not plan.changes:
        env.say("OpenClaw is not registered there.")
    elif not written:
        env.say("Nothing was written.")
    for one in written if not args.json else ():
        env.say(f"Took OpenClaw out of {one.path}; the old file is {one.backup}.")
