"""What the agent remembers from one conversation to the next.

It is stored in files that you can read and edit: MEMORY.md has what you said, HEARD.md what came
from elsewhere. Other .md files in that folder are searched too.
"""

import argparse

from openclaw.agent.tools.memory import OTHERS, PERSON, Memory
from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_action, chosen_agent, option
from openclaw.config.paths import check_directory
from openclaw.core.file_names import FileName


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", dest="what")
    parser.set_defaults(what="show", agent=None, json=False)
    for name, summary in (
        ("show", "print what is remembered (the default)"),
        ("search", "print the lines that contain these words"),
        ("path", "print the folder with the notes"),
        ("clear", "forget everything; your own notes stay"),
    ):
        action = add_action(actions, name, summary, json=name in ("show", "search"))
        option(action, "--agent ID", "the agent whose memory to use")
        if name == "clear":
            option(action, "--yes", "forget without asking")
        if name == "search":
            option(action, "WORD…", dest="words")


def run(args: argparse.Namespace, env: Environment) -> None:
    agent = chosen_agent(env.config, args.agent).id
    memory = Memory(env.paths.memory / FileName(agent))
    check_directory(memory.directory)
    if args.what == "path":
        env.say(str(memory.directory))
    elif args.what == "clear":
        question = f"Forget everything that agent '{agent}' remembers"
        if not env.confirms(args, question, "forget everything"):
            env.say("Nothing was forgotten.")
            return
        for name in (PERSON, OTHERS):
            (memory.directory / name).unlink(missing_ok=True)
        env.say("Forgotten.")
    else:
        found = [*memory.lines()] if args.what == "show" else memory.find(" ".join(args.words))
        facts = {"lines": [{"file": name, "text": line} for name, line in found]}
        lines = [f"{name}: {line}" for name, line in found]
        env.report(args, facts, *lines, empty="Nothing is remembered.")
