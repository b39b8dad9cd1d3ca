"""Print a completion script for your shell: commands, options and names.

It completes the names of agents, servers, conversations, and tools of servers that have run
before.

--install saves it where your shell looks for such scripts. In zsh, that directory has to be in
`fpath` before `compinit` runs; or source the script after it.
"""

import argparse
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import anyio

from openclaw.cli import parser as parsers
from openclaw.cli.commands.sessions import open_named_store
from openclaw.cli.environment import Environment
from openclaw.config.merge import effective_agents
from openclaw.config.paths import home_dir, write_atomically
from openclaw.core.clock import SystemClock
from openclaw.core.errors import OpenClawError
from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key
from openclaw.sessions.open import is_address
from openclaw.sessions.waiting_questions import open_questions

# The scripts pass the words up to the cursor, and get one possible next word per line.
_BETWEEN = "\x1f"
_FILES = "@files"  # left to the shell
_MOST_SESSIONS = 200
# A shell expands completions: a name that a stranger chose must not run as a command.
_HARMLESS = re.compile(r"[\w.@/+:][\w.@/+:-]*")

SHELLS = ("bash", "zsh", "fish")
# zsh can use bash's script. If zsh finds it by name in `fpath`, the script becomes a function whose
# first call must already complete.
_ZSH = """\
#compdef PROGRAM
autoload -U +X bashcompinit && bashcompinit
{}\
[[ ${{funcstack[1]}} == _PROGRAM ]] && _bash_complete -o filenames -F _PROGRAM_complete
"""


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, help="your shell")
    parsers.option(parser, "--install", "save the script where the shell looks for it")
    parser.add_argument("--after", metavar="WORDS", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, env: Environment) -> None:
    if args.after is None:
        ending = "fish" if args.shell == "fish" else "bash"
        script = Path(__file__).with_name(f"completion.{ending}").read_text("utf-8")
        script = _ZSH.format(script) if args.shell == "zsh" else script
        script = script.replace("PROGRAM", env.program)
        if args.install:
            _install(env, args.shell, script)
        else:
            env.stdout.write(script)
        return
    line = "--" if args.after == [] else args.after  # argparse consumes a lone `--`
    for word, summary in _offers(env, line.split(_BETWEEN)).items():
        env.say(f"{word}\t{summary}" if args.shell == "fish" and summary else word)


def _install(env: Environment, shell: str, script: str) -> None:
    home = home_dir(env.environ)
    data = Path(env.environ.get("XDG_DATA_HOME") or home / ".local" / "share")
    config = Path(env.environ.get("XDG_CONFIG_HOME") or home / ".config")
    path = {
        "bash": data / "bash-completion" / "completions" / env.program,
        "zsh": home / ".zfunc" / f"_{env.program}",
        "fish": config / "fish" / "completions" / f"{env.program}.fish",
    }[shell]
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomically(path, script, mode=0o644)
    env.say(f"Wrote {path}. It works in new shells.")
    if shell == "zsh":
        env.say("Unless it's there, add this to ~/.zshrc before compinit: fpath=(~/.zfunc $fpath)")


def _offers(env: Environment, words: Sequence[str]) -> Mapping[str, str]:
    """Completions for the last of these words, with descriptions."""
    *before, current = words
    parser, option, previous = _position(env, before)
    if parser is None or "--" in before:
        return {}
    if option is None and current.startswith("-"):
        found = {
            flag: (one.help or "").partition(";")[0]
            for one in parsers.actions(parser)
            for flag in one.option_strings
            if one.help is not argparse.SUPPRESS and flag.startswith("--")
        }
    else:
        found = parsers.summaries(parser) if option is None else {}
        found = found or _values(env, parser, option, previous)
    if _FILES in found:
        return {_FILES: ""}
    return {word: text for word, text in found.items() if word.startswith(current)}


def _position(
    env: Environment, words: Sequence[str]
) -> tuple[parsers.CommandParser | None, argparse.Action | None, list[str]]:
    """The command that the words lead to, the option whose value comes next, and its arguments."""
    parser = parsers.CommandParser(prog=env.program)
    parser.add_argument("--version", action="store_true", help="show the version")
    commands = parser.add_subparsers()
    for name, summary in parsers.COMMANDS.items():
        commands.add_parser(name, description=summary)
    option: argparse.Action | None = None
    previous: list[str] = []
    for word in words:
        below = parsers.subparsers(parser)
        if option is not None:
            option = None
        elif word.startswith("-"):
            flags = {flag: one for one in parsers.actions(parser) for flag in one.option_strings}
            option = flags[word] if word in flags and flags[word].nargs != 0 else None
        elif word in below:
            parser = below[word]
            if " " not in parser.prog.removeprefix(f"{env.program} "):
                parser = parsers.command_parser(env.program, word)
        elif below:
            return None, None, []
        else:
            previous.append(word)
    return parser, option, previous


def _values(
    env: Environment,
    parser: argparse.ArgumentParser,
    option: argparse.Action | None,
    previous: Sequence[str],
) -> dict[str, str]:
    """Values for the option, or else for the command's next argument."""
    places = [one for one in parsers.actions(parser) if not one.option_strings]
    repeated = [one for one in places[-1:] if one.nargs in ("*", "+")]
    action = option or next(iter(places[len(previous) :] or repeated), None)
    if action is None:
        return {}
    if action.choices:
        return dict.fromkeys(map(str, action.choices), "")
    if action.type is Path or action.metavar in ("FILE", "PATH", "DIR"):
        return {_FILES: ""}
    command, _, name = parser.prog.partition(" ")[2].partition(" ")
    what = ""
    if "--agent" in action.option_strings:
        what = "agents"
    elif action.metavar == "KEY" and (command == "sessions" or option is not None):
        what = "sessions"
    elif command == "questions":
        what = "questions"
    elif (command, name, len(previous)) == ("mcp", "call", 1) and option is None:
        what = "tools"
    elif command == "mcp" and name != "add" and action.metavar in ("SERVER", "NAME", "TOOL"):
        what = "servers"
    names = _names(env, what, previous) if what else ()
    return dict.fromkeys(filter(_HARMLESS.fullmatch, names), "")


def _names(env: Environment, what: str, previous: Sequence[str]) -> Sequence[str]:
    """Stored names; none if they cannot be read, since an error would get in the way."""
    try:
        loaded = env.read_config()
        env.hide(loaded.credentials)
        agents = effective_agents(loaded.config)
        if what in ("sessions", "questions"):
            return _stored(env, loaded.config.sessions.store, what)
        if what == "tools":  # as the server declared them when it last ran
            known = PinStore(env.paths.pins).load()
            name = previous[0]
            configs = [one.servers[name] for one in agents.values() if name in one.servers]
            pinned = [known[key] for key in map(pin_key, configs) if key in known]
            return [n for one in pinned for n in {*one.accepted, *one.pending} - {*one.removed}]
    except OpenClawError:
        return ()
    return list(agents if what == "agents" else {n for a in agents.values() for n in a.servers})


def _stored(env: Environment, where: str, what: str) -> Sequence[str]:
    """The most recent ones. A database server is not queried: it may be slow or unreachable."""

    async def names() -> Sequence[str]:
        async with open_named_store(None, env) as store:
            if store is None:
                return ()
            if what == "questions":
                return [one.id for one in await open_questions(store, SystemClock().now_ms())]
            page = await store.list_sessions(limit=_MOST_SESSIONS)
            return [info.key for info in page.sessions]

    return () if is_address(where) else anyio.run(names)
