"""Set OpenClaw up: choose a model, import MCP servers, write openclaw.json.

It looks for a model (keys in the environment, Ollama, LM Studio) and for the MCP servers of Claude
Code, Claude Desktop, Cursor, VS Code, Codex, Gemini, Windsurf and Zed, asks what to use, and shows
every change before writing it. If there is no key, it asks for one, checks it and stores it. It
only adds to an existing file, and keeps a copy of the old one beside it.
"""

import argparse
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import chain, count
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anyio

from openclaw.cli.commands.mcp_config import (
    imported_before,
    remember_imported,
    store_all,
    target_place,
)
from openclaw.cli.commands.secrets import hidden_line
from openclaw.cli.dispatch import EXIT_INTERRUPTED
from openclaw.cli.environment import Environment, text_of
from openclaw.cli.render.terminal import fitted
from openclaw.cli.setup.discovery import Found, ModelOffer, look, shown_path
from openclaw.cli.setup.other_clients import CLIENTS, client_file
from openclaw.cli.setup.plan import (
    FileChange,
    Plan,
    Written,
    make_plan,
    removal,
    weights_missing,
    write_all,
)
from openclaw.config.agent_schema import ProviderConfig
from openclaw.config.json5 import parse
from openclaw.config.load import parse_config, read_text
from openclaw.config.paths import config_path, private_directory
from openclaw.core.clock import SystemClock
from openclaw.core.errors import (
    EXIT_OK,
    InvalidConfig,
    InvalidRequest,
    ModelUnavailable,
    OpenClawError,
    describe,
)
from openclaw.mcp_client.bounds import printable
from openclaw.models.choose import KNOWN_PROVIDERS, LOCAL_PROVIDER, Candidate, resolve
from openclaw.models.listing import KeyNotChecked, KeyRefused, check_key, list_models, try_model
from openclaw.secrets.refs import Secret

ALL, NONE = "all", "none"


class Left(Exception):
    """Raised when the person does not want to go on."""


@dataclass(frozen=True, slots=True)
class Line:
    name: str
    shown: str


class Asker:
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
            said = self.text(f"  a number{hint} [1]: ") or "1"
            if "/" in said:
                wrong = objection(said)
                if wrong is None:
                    return said
                self._env.say(fitted(f"  {wrong.message}; {wrong.hint}", self._env.stdout, hang=2))
                continue
            try:
                [chosen] = chosen_names(said, lines, "number")
            except (InvalidRequest, ValueError):
                self._env.say(f"  Please enter {numbers}{hint}")
            else:
                return chosen

    def several(self, question: str, lines: Sequence[Line], *, suggested: str) -> list[str]:
        self._show(question, lines)
        while True:
            said = self.text(f"  numbers, {ALL} or {NONE} [{suggested}]: ") or suggested
            try:
                return chosen_names(said, lines, "number")
            except InvalidRequest as error:
                self._env.say(f"  {error.message}")

    def yes(self, question: str) -> bool:
        return self.text(f"{question} [Y/n] ").casefold() in ("", "y", "yes")

    def _show(self, question: str, lines: Sequence[Line]) -> None:
        self._env.say(fitted(f"\n{question}", self._env.stdout))
        for number, line in enumerate(lines, 1):
            self._env.say(fitted(f"  {number}. {line.shown}", self._env.stdout, hang=5))

    def text(self, prompt: str) -> str:
        self._env.stdout.write(prompt)
        self._env.stdout.flush()
        line = text_of(self._env.stdin.readline)
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
    try:
        return chosen_names(said, [Line(name, name) for name in names], what)
    except InvalidRequest as error:
        raise InvalidRequest(error.message, hint=hint()) from None


AUTO = "auto"
OWN = "address"
_BESIDE = 17  # columns that the names of what was found take


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--yes",
        action="store_true",
        help="accept all suggestions without asking; change other programs' files only with "
        "--register",
    )
    parser.add_argument("--dry-run", action="store_true", help="show the changes and write nothing")
    parser.add_argument(
        "--model", metavar="MODEL", help=f"provider/model, or {AUTO} to decide at every start"
    )
    parser.add_argument(
        "--import",
        dest="take",
        metavar="NAMES",
        help=f"the servers to import from other programs: {ALL}, {NONE}or names with commas",
    )
    parser.add_argument(
        "--register",
        metavar="NAMES",
        help=f"register OpenClaw with: {', '.join(CLIENTS)}, {ALL} that are installed, {NONE}",
    )
    parser.add_argument(
        "--unregister",
        metavar="NAMES",
        help="remove OpenClaw from these programs and do nothing else",
    )
    parser.add_argument(
        "--replace", action="store_true", help="replace an existing file; a copy of it is kept"
    )
    parser.add_argument(
        "--no-sandbox",
        action="store_true",
        help="run imported servers without a sandbox (default: in one, if this machine "
        "supports it)",
    )
    parser.add_argument("--json", action="store_true", help="print JSON and nothing else")


@dataclass(frozen=True, slots=True)
class Wishes:
    model: ModelOffer | None
    servers: tuple[str, ...]
    clients: tuple[str, ...]


def run(args: argparse.Namespace, env: Environment) -> int:
    asking = env.stdin.isatty() and env.stdout.isatty() and not (args.yes or args.json)
    if not asking and not args.yes and not args.dry_run:
        raise InvalidRequest(
            "nobody can be asked here; add --yes to accept all suggestions, or --dry-run to "
            "see them",
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
    path = env.config_file
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
    if plan.servers:
        remember_imported(env, plan.servers)
    if where and not args.json:
        env.say(f"\nStored the credentials in {where}.")
    if asker is not None and weights_missing(env):
        _fetch_weights(env, asker)
    _report(args, env, plan, written)
    return EXIT_OK


def _fetch_weights(env: Environment, asker: Asker) -> None:
    from openclaw.cli.commands.models import pull
    from openclaw.embedded.runner import can_run

    if can_run() and asker.yes("\nDownload the embedded model now (98 MB)?"):
        try:
            pull(env)
        except OpenClawError as error:
            env.say(f"The download failed: {describe(error)}")


def _present(path: Path, env: Environment) -> str | None:
    """The file's text where there is one with something in it, provided that it holds."""
    text = read_text(path)
    if text is None or not text.strip():
        return None
    try:
        loaded = parse_config(text, env.environ, source=path)
    except InvalidConfig as error:
        error.hint = "fix it, or start over with --replace, which keeps a copy of the old file"
        raise
    env.hide(loaded.credentials)
    return text


def _introduce(env: Environment, found: Found, path: Path, *, fresh: bool) -> None:
    def say(text: str) -> None:
        env.say(fitted(text, env.stdout, hang=_BESIDE))

    env.say(
        fitted(
            "Setting up OpenClaw. Nothing is written until you have seen it; Ctrl-C quits.\n",
            env.stdout,
        )
    )
    titles = [CLIENTS[name].title for name in found.clients]
    state = "will be created" if fresh else "exists and will only be added to"
    say(f"  configuration  {shown_path(path, env.environ)} {state}")
    say(f"  model keys     {', '.join(found.keys) or 'none in the environment'}")
    if found.credentials:
        say(f"  other keys     {', '.join(found.credentials)}")
    say(f"  programs       {', '.join(titles) or 'none found'}")
    for note in found.notes:
        say(f"  note           {printable(note)}")


def _wishes(
    args: argparse.Namespace, env: Environment, found: Found, asker: Asker | None, text: str | None
) -> Wishes:
    return Wishes(
        _model(args, env, found, asker, text),
        _servers(args, env, found, asker, text),
        _clients(args, found, asker),
    )


def _model(
    args: argparse.Namespace, env: Environment, found: Found, asker: Asker | None, text: str | None
) -> ModelOffer | None:
    """The model to write; None if the file keeps the one it has, or is to have none."""
    said: str | None = args.model
    present = parse_config(text or "{}", env.environ, source=config_path(env.environ)).config
    chosen = present.agents.defaults.model
    now = chosen.primary if chosen is not None else None
    if said is None and asker is None:
        # Without a key nothing is written, so that one that comes later is used.
        suggested = found.models[0]
        return suggested if suggested.variable and now is None else None
    providers = present.models.providers
    while True:
        if said is None and asker is not None:
            said = _asked_model(env, asker, _model_lines(found, now), providers)
        assert said is not None
        if asker is not None and (said == OWN or _is_address(said)):
            if (own := _own_server(env, asker, said, providers)) is not None:
                return own
            said = None
            continue
        if said == AUTO or (args.model is None and said == now):
            return None
        if (wrong := _objection(said, env, providers)) is not None:
            raise wrong
        offer = next((one for one in found.models if one.ref == said), ModelOffer(said, ""))
        if (keyed := _with_key(env, asker, offer, providers)) is not None:
            return keyed
        said = None  # no key: choose again


def _asked_model(
    env: Environment, asker: Asker, lines: Sequence[Line], providers: Mapping[str, ProviderConfig]
) -> str:
    def objection(said: str) -> InvalidRequest | None:
        return None if _is_address(said) else _objection(said, env, providers)

    question = "Which model do you want to use?"
    return asker.one(question, lines, other="provider/model, or an address", objection=objection)


def _with_key(
    env: Environment,
    asker: Asker | None,
    offer: ModelOffer,
    providers: Mapping[str, ProviderConfig],
) -> ModelOffer | None:
    """The model and where its key is, which is asked for if need be; None if no key is given."""
    candidate = resolve(offer.ref, providers, env.environ)
    if offer.variable is None and (candidate.api_key or "").startswith("secret://env/"):
        offer = replace(offer, variable=str(candidate.api_key).removeprefix("secret://env/"))
    if asker is None or candidate.api_key or not candidate.key_hint:
        return offer
    pasted = _pasted(env, candidate, asker)
    if pasted is None:
        return None
    return replace(
        offer, variable=KNOWN_PROVIDERS[candidate.provider].key_variables[0], pasted=pasted
    )


def _model_lines(found: Found, now: str | None) -> list[Line]:
    lines = [Line(one.ref, f"{one.ref}  ({one.reason})") for one in found.models if one.ref != now]
    lines.append(Line(OWN, f"{OWN}  (another server that speaks OpenAI's API: vLLM, llama.cpp, …)"))
    if now is not None:
        return [Line(now, f"{now}  (current)"), *lines]
    if not found.models[0].variable:
        automatic = (
            "decide at every start: a key in the environment, then Ollama, then the embedded model"
        )
        lines.append(Line(AUTO, f"{AUTO}  ({automatic})"))
    return lines


def _pasted(env: Environment, candidate: Candidate, asker: Asker) -> Secret | None:
    """A key that the provider accepts; None if the person gives none."""
    page = KNOWN_PROVIDERS[candidate.provider].key_page
    env.say(fitted(f"\nCreate a key at {page} and paste it here; it won't be shown.", env.stdout))
    while True:
        key = hidden_line(env, "  key (Enter to go back): ")
        if not key:
            return None
        env.redactor.register(key)
        try:
            check_key(candidate, key, env.environ)
        except KeyRefused as error:
            env.say(
                fitted(f"  The provider refused this key ({printable(str(error))}).", env.stdout)
            )
            continue
        except KeyNotChecked as error:
            env.say(
                fitted(f"  The key could not be checked ({printable(str(error))}).", env.stdout)
            )
            if not asker.yes("  Use it anyway?"):
                continue
        else:
            env.say("  The key works.")
        return Secret(key)


def _is_address(text: str) -> bool:
    return text.startswith(("http://", "https://"))


def _own_server(
    env: Environment, asker: Asker, address: str, providers: Mapping[str, ProviderConfig]
) -> ModelOffer | None:
    """A model of a server at an address of the person's own; None if they go back."""
    while True:
        if not _is_address(address):
            address = asker.text("\n  its address, such as http://127.0.0.1:8000/v1: ")
            if not address:
                return None
            if not _is_address(address):
                env.say("  It begins with http:// or https://.")
                continue
        key = hidden_line(env, "  its key (Enter if it needs none): ")
        if key:
            env.redactor.register(key)
        name = _provider_name(address, providers)
        candidate = Candidate(name, "", "openai-completions", address.rstrip("/"))
        try:
            candidate, names = _listed(candidate, key, env)
            model = _model_of(asker, names)
            if not model:
                return None
            anyio.run(try_model, replace(candidate, model=model), key or None, env.environ)
        except (KeyRefused, KeyNotChecked) as error:
            env.say(fitted(f"  That did not work ({printable(str(error))}).", env.stdout, hang=2))
            address = ""
            continue
        env.say(f"  {printable(model)} answers.")
        variable = f"{name.upper().replace('-', '_')}_API_KEY" if key else None
        pasted = Secret(key) if key else None
        return ModelOffer(f"{name}/{model}", "", variable, pasted, candidate.base_url)


def _listed(candidate: Candidate, key: str, env: Environment) -> tuple[Candidate, tuple[str, ...]]:
    """Its models, and where its API is: at the address, or at /v1 below it; none if it has no list."""
    below = replace(candidate, base_url=f"{candidate.base_url}/v1")
    tried = (candidate,) if str(candidate.base_url).endswith("/v1") else (below, candidate)
    for one in tried:
        try:
            return one, anyio.run(list_models, one, key or None, env.environ)
        except KeyNotChecked as error:
            if error.status is None and one is tried[-1]:
                raise
    return tried[-1], ()


def _model_of(asker: Asker, names: Sequence[str]) -> str:
    if not names:
        return asker.text("  It does not list its models. The model's name: ")
    lines = [Line(one, printable(one)) for one in names]
    return asker.one("Which of its models?", lines, other="a name", objection=lambda _: None)


def _bare(address: str | None) -> str:
    return (address or "").rstrip("/").removesuffix("/v1")


def _provider_name(address: str, providers: Mapping[str, ProviderConfig]) -> str:
    """The server's host as a name; `own` for one on this machine or with a bare number."""
    host = urlsplit(address).hostname or ""
    plain = "own" if not host.strip("0123456789.:") or host == "localhost" else host
    name = re.sub(r"[^a-z0-9]+", "-", plain.removeprefix("api.").lower()).strip("-") or "own"
    taken = {*KNOWN_PROVIDERS, LOCAL_PROVIDER}
    taken |= {key for key, one in providers.items() if _bare(one.base_url) != _bare(address)}
    numbered = (f"{name}-{number}" for number in count(2))
    return next(one for one in chain([name], numbered) if one not in taken)


def _objection(
    ref: str, env: Environment, providers: Mapping[str, ProviderConfig]
) -> InvalidRequest | None:
    """What is wrong with a model that somebody named."""
    try:
        resolve(ref, providers, env.environ)
    except ModelUnavailable as error:
        return InvalidRequest(error.message, hint=error.hint)
    return None


def _servers(
    args: argparse.Namespace, env: Environment, found: Found, asker: Asker | None, text: str | None
) -> tuple[str, ...]:
    names = [one.server.name for one in found.servers]
    if args.take is not None:
        return tuple(by_option(args.take, names, "MCP server", lambda: _there_are(names)))
    there = _configured(text)
    before = imported_before(env) if text is not None else frozenset[str]()
    fresh = [name for name in names if name not in there and name not in before]
    if asker is None or not names:
        return tuple(fresh)
    lines: list[Line] = []
    for one in found.servers:
        name = one.server.name
        mark = (
            " - already imported"
            if name in there
            else " - you removed it"
            if name in before
            else ""
        )
        shown = f"{name}  ({CLIENTS[one.client].title}: {one.target[:60]}){mark}"
        lines.append(Line(name, printable(shown)))
    suggested = ALL if fresh == names else ",".join(fresh) or NONE
    question = "Which of your MCP servers may the agent use?"
    return tuple(asker.several(question, lines, suggested=suggested))


def _configured(text: str | None) -> Collection[str]:
    if text is None:
        return ()
    place = parse(text).find(target_place(text))
    return tuple(place.plain()) if place is not None and place.kind == "object" else ()


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
    return f"known programs: {', '.join(CLIENTS)}"


def _there_are(names: Any) -> str:
    return printable(f"available: {', '.join(names)}") if names else "there are none"


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
        env.say(f"Removed OpenClaw from {one.path}; the previous file is {one.backup}.")
