"""Print a completion script for your shell: commands, options and names.

It completes the names of agents, servers, conversations, and tools of servers that have run
before.

Save it where your shell looks for such scripts, as in the examples, or source it. In zsh, add the
directory to `fpath` before `compinit` runs, or source the script after it.
"""

import argparse
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from openclaw.cli.environment import Environment
from openclaw.cli.parser import COMMANDS, actions, all_parsers, subparsers, summaries
from openclaw.core.errors import InvalidRequest, OpenClawError

if TYPE_CHECKING:
    from openclaw.config.load import LoadedConfig

SHELLS = ("bash", "zsh", "fish")
NAMES = ("agents", "servers", "tools", "sessions")
_MOST_SESSIONS = 200
# A shell expands what it is offered: a name that a stranger chose must not be a command in it.
_HARMLESS = re.compile(r"[\w.@/+:][\w.@/+:-]*")


def register(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("shell", choices=SHELLS, nargs="?", help="your shell")
    # What the scripts ask while a person types.
    parser.add_argument("--names", choices=NAMES, help=argparse.SUPPRESS)
    parser.add_argument("--of", metavar="SERVER", help=argparse.SUPPRESS)


def run(args: argparse.Namespace, env: Environment) -> None:
    if args.names is not None:
        for name in _names(args, env):
            if _HARMLESS.fullmatch(name):
                env.say(name)
    elif args.shell is None:
        raise InvalidRequest(f"choose a shell: {', '.join(SHELLS)}")
    else:
        env.stdout.write(SCRIPTS[args.shell](env.program, nodes(env.program)))


def _names(args: argparse.Namespace, env: Environment) -> list[str]:
    """As they are stored; none where they cannot be read, since nobody wants to be told."""
    from openclaw.config.load import load_config

    try:
        loaded = load_config(env.config_option, env.environ)
        env.hide(loaded.credentials)
        return _LISTS[args.names](args, env, loaded)
    except OpenClawError:
        return []


def _agents(args: argparse.Namespace, env: Environment, loaded: "LoadedConfig") -> list[str]:
    from openclaw.config.merge import effective_agents

    return list(effective_agents(loaded.config))


def _servers(args: argparse.Namespace, env: Environment, loaded: "LoadedConfig") -> list[str]:
    from openclaw.config.merge import effective_agents

    agents = effective_agents(loaded.config).values()
    return sorted({name for agent in agents for name in agent.servers})


def _tools(args: argparse.Namespace, env: Environment, loaded: "LoadedConfig") -> list[str]:
    """What the server declared when it last ran: it is not started for this."""
    from openclaw.config.merge import effective_agents
    from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key

    agents = effective_agents(loaded.config).values()
    keys = {pin_key(agent.servers[args.of]) for agent in agents if args.of in agent.servers}
    known = PinStore(env.paths.pins).load()
    pinned = [known[key] for key in keys if key in known]
    gone = {name for one in pinned for name in one.removed}
    return sorted({name for one in pinned for name in (*one.accepted, *one.pending)} - gone)


def _sessions(args: argparse.Namespace, env: Environment, loaded: "LoadedConfig") -> list[str]:
    """The ones used last. A database server is not asked: it may be slow, or away."""
    import anyio

    from openclaw.cli.commands.sessions import opened
    from openclaw.sessions.open import is_server

    if is_server(loaded.config.sessions.store):
        return []

    async def keys() -> list[str]:
        async with opened(None, env, loaded) as store:
            page = None if store is None else await store.list_sessions(limit=_MOST_SESSIONS)
        return [] if page is None else [info.key for info in page.sessions]

    return list(dict.fromkeys(anyio.run(keys)))


_LISTS = {"agents": _agents, "servers": _servers, "tools": _tools, "sessions": _sessions}

FILES, AGENTS, SERVERS, NOTHING = "@files", "@agents", "@servers", "@nothing"
SESSIONS = "@sessions"
CALLED = "@called"  # a server, and after it one of its tools


@dataclass(frozen=True, slots=True)
class Option:
    """An option's spellings, what it is for, and what may follow it; None where nothing does."""

    flags: tuple[str, ...]
    summary: str
    values: tuple[str, ...] | None


@dataclass(frozen=True, slots=True)
class Node:
    """What may stand after a command's words: subcommands, options, and words of its own."""

    subcommands: Mapping[str, str]
    options: tuple[Option, ...]
    words: tuple[str, ...]


def nodes(program: str) -> dict[str, Node]:
    """Every command by its words; the program itself is the empty one."""
    found = {
        "": Node(
            {command.name: command.summary for command in COMMANDS},
            (Option(("--version",), "show the version", None), Option(("--help",), "help", None)),
            (),
        )
    }
    for words, parser in all_parsers(program):
        found[words] = Node(summaries(parser), _options(parser), _words(words, parser))
    return found


def _options(parser: argparse.ArgumentParser) -> tuple[Option, ...]:
    return tuple(
        Option(tuple(one.option_strings), _summary(one), None if one.nargs == 0 else _values(one))
        for one in actions(parser)
        if one.option_strings and one.help is not argparse.SUPPRESS
    )


def _summary(action: argparse.Action) -> str:
    return (action.help or "").partition(";")[0].replace("%(prog)s", "")


def _values(action: argparse.Action) -> tuple[str, ...]:
    if action.choices:
        return tuple(map(str, action.choices))
    if "--agent" in action.option_strings:
        return (AGENTS,)
    if "--session-key" in action.option_strings:
        return (SESSIONS,)
    if action.type is Path or action.metavar in ("FILE", "PATH", "DIR"):
        return (FILES,)
    return (NOTHING,)


def _words(words: str, parser: argparse.ArgumentParser) -> tuple[str, ...]:
    if subparsers(parser):
        return ()
    found: list[str] = []
    for action in actions(parser):
        if action.option_strings:
            continue
        of_servers = words.startswith("mcp ") and words != "mcp add"
        if words == "mcp call":
            found.append(CALLED)
        elif words.startswith("sessions ") and action.metavar == "KEY":
            found.append(SESSIONS)
        elif of_servers and action.metavar in ("SERVER", "NAME", "TOOL"):
            found.append(SERVERS)
        else:
            found += [value for value in _values(action) if value != NOTHING]
    return tuple(dict.fromkeys(found))


def bash(program: str, tree: Mapping[str, Node]) -> str:
    """For bash: a function that finds the command in what was typed and offers what may follow."""
    name = f"_{program}_complete"
    return f"""# bash completion for {program}; made by: {program} completion bash
{name}_names() {{
  # A name with a colon is several words here, and would be put together wrongly.
  {program} completion --names "$@" 2>/dev/null | grep -v :
}}
{name}() {{
  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD-1]}}
  local place='' word skip='' offers='' index stood given=()
  for ((index = 1; index < COMP_CWORD; index++)); do
    word=${{COMP_WORDS[index]}}
    if [[ -n $skip ]]; then skip=''; continue; fi
    [[ $word == -- ]] && return 0
    case " $place $word " in
{_bash_skips(tree)}
    esac
    [[ $word == -* ]] && continue
    stood=$place
    case "$place/$word" in
{_bash_steps(tree)}
    esac
    if [[ $place == "$stood" ]]; then given+=("$word"); else given=(); fi
  done
  case "$place/$before" in
{_bash_values(tree)}
    *) case "$place" in
{_bash_offers(tree)}
    esac ;;
  esac
  [[ $offers == *@files* ]] && COMPREPLY+=($(compgen -f -- "$current"))
  [[ $offers == *@agents* ]] && offers+=" $({name}_names agents)"
  [[ $offers == *@servers* ]] && offers+=" $({name}_names servers)"
  [[ $offers == *@sessions* ]] && offers+=" $({name}_names sessions)"
  if [[ $offers == *@called* ]]; then
    case ${{#given[@]}} in
      0) offers+=" $({name}_names servers)" ;;
      1) offers+=" $({name}_names tools --of="${{given[*]}}")" ;;
    esac
  fi
  for word in files agents servers sessions called nothing; do offers=${{offers//@$word/}}; done
  COMPREPLY+=($(compgen -W "$offers" -- "$current"))
}}
complete -o filenames -F {name} {program}
"""


def _patterns(words: Sequence[str]) -> str:
    return "|".join(shlex.quote(word) for word in words)


def _bash_skips(tree: Mapping[str, Node]) -> str:
    """Options whose next word is a value, and so no command."""
    lines: list[str] = []
    for path, node in tree.items():
        flags = [flag for one in node.options if one.values is not None for flag in one.flags]
        if flags:
            lines.append(f"      {_patterns([f' {path} {flag} ' for flag in flags])}) skip=1 ;;")
    return "\n".join(lines)


def _bash_steps(tree: Mapping[str, Node]) -> str:
    return "\n".join(
        f"      {_patterns([f'{path}/{name}' for name in node.subcommands])})"
        ' place="${place:+$place }$word" ;;'
        for path, node in tree.items()
        if node.subcommands
    )


def _bash_values(tree: Mapping[str, Node]) -> str:
    lines: list[str] = []
    for path, node in tree.items():
        for one in node.options:
            if one.values is not None:
                words = _patterns([f"{path}/{flag}" for flag in one.flags])
                lines.append(f"    {words}) offers={shlex.quote(' '.join(one.values))} ;;")
    return "\n".join(lines)


def _bash_offers(tree: Mapping[str, Node]) -> str:
    lines: list[str] = []
    for path, node in tree.items():
        flags = [flag for one in node.options for flag in one.flags if flag.startswith("--")]
        offers = " ".join([*node.subcommands, *node.words, *flags])
        lines.append(f"      {shlex.quote(path)}) offers={shlex.quote(offers)} ;;")
    return "\n".join(lines)


def zsh(program: str, tree: Mapping[str, Node]) -> str:
    """For zsh: the same rules as for bash, through its compatibility with such functions.

    Found by its name in `fpath`, the script is a function, whose first call has to complete already.
    """
    return f"""#compdef {program}
autoload -U +X bashcompinit && bashcompinit
{bash(program, tree)}\
[[ ${{funcstack[1]}} == _{program} ]] && _bash_complete -o filenames -F _{program}_complete
"""


def fish(program: str, tree: Mapping[str, Node]) -> str:
    """For fish: a line for everything that may follow, with the condition that it does."""
    paths, here = f"__{program}_paths", f"__{program}_at"
    lines = [
        f"# fish completion for {program}; made by: {program} completion fish",
        f"set -g {paths} {' '.join(shlex.quote(path) for path in tree if path)}",
        f"function {here}",
        "  set -l place",
        "  for word in (commandline -opc)[2..]",
        f'    contains -- (string join -- " " $place $word) ${paths}; and set -a place $word',
        "  end",
        '  test "$place" = "$argv"',
        "end",
        *_fish_called(program, tree["mcp call"]),
        f"complete -c {program} -f",
    ]
    for path, node in tree.items():
        when = f"-n {shlex.quote(f'{here} {path}'.rstrip())}"
        lines += [
            f"complete -c {program} {when} -a {shlex.quote(word)} -d {shlex.quote(summary)}"
            for word, summary in node.subcommands.items()
        ]
        lines += [f"complete -c {program} {when} {_fish_offer(program, w)}" for w in node.words]
        lines += [f"complete -c {program} {when} {_fish_option(program, o)}" for o in node.options]
    return "\n".join(lines) + "\n"


def _fish_called(program: str, call: Node) -> list[str]:
    """A function that offers a server, and after it that server's tools."""
    names = f"{program} completion --names"
    taking_a_word = " ".join(f for one in call.options if one.values is not None for f in one.flags)
    return [
        f"function __{program}_called",
        "  set -l given",
        "  set -l before",
        "  set -l called no",
        "  for word in (commandline -opc)",
        '    if test "$called" = no',
        '      test "$word" = call; and set called yes',
        '    else if not string match -q -- "-*" $word',
        f"      contains -- $before {taking_a_word}; or set -a given $word",
        "    end",
        "    set before $word",
        "  end",
        "  switch (count $given)",
        "    case 0",
        f"      {names} servers 2>/dev/null",
        "    case 1",
        f"      {names} tools --of=$given[1] 2>/dev/null",
        "  end",
        "end",
    ]


def _fish_option(program: str, option: Option) -> str:
    flags = " ".join(
        f"-l {flag[2:]}" if flag.startswith("--") else f"-s {flag[1:]}" for flag in option.flags
    )
    takes = "" if option.values is None else _fish_offer(program, *option.values)
    if option.values is not None:
        takes = f"-r {takes}" if option.values == (FILES,) else f"-x {takes}"
    return f"{flags} {takes} -d {shlex.quote(option.summary)}".replace("  ", " ")


def _fish_offer(program: str, *values: str) -> str:
    if values == (FILES,):
        return "-F"
    if values == (CALLED,):
        return f"-a '(__{program}_called)'"
    if values in ((AGENTS,), (SERVERS,), (SESSIONS,)):
        return f"-a '({program} completion --names {values[0][1:]} 2>/dev/null)'"
    words = " ".join(value for value in values if value != NOTHING)
    return f"-a {shlex.quote(words)}" if words else ""


SCRIPTS: Mapping[str, Callable[[str, Mapping[str, Node]], str]] = {
    "bash": bash,
    "zsh": zsh,
    "fish": fish,
}
