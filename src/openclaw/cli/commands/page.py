"""Open the gateway's page in a browser, with a one-time login link.

With --print it prints the link instead, for a browser elsewhere.
"""

import argparse
import webbrowser

from openclaw.cli.environment import Environment
from openclaw.cli.parser import option
from openclaw.runtime.gateway_connection import ask_gateway


def register(parser: argparse.ArgumentParser) -> None:
    option(parser, "--print", "print the link instead of opening it", dest="print_only")


def run(args: argparse.Namespace, env: Environment) -> None:
    def link(local: bool) -> str:
        return ask_gateway(env.paths, "POST", "/api/login/links", {"local": local})["url"]

    if args.print_only or not webbrowser.open(link(local=True)):
        env.say(link(local=False))
    else:
        env.say("Opened the page in your browser. If nothing shows up: openclaw page --print")
