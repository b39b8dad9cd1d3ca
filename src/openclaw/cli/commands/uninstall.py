"""Undo what set-up did on this computer.

Stops the gateway, removes its service, and takes OpenClaw out of the programs that it was
registered with. Your configuration, conversations, memory and secrets stay, unless you add
--delete-data. The command that removes the program itself is printed at the end.
"""

import argparse
import shutil
from contextlib import suppress

from openclaw.cli.commands.gateway import remove_service, stop_gateway
from openclaw.cli.environment import Environment
from openclaw.cli.parser import option
from openclaw.cli.setup import hub_clients
from openclaw.cli.setup import plan as plans
from openclaw.config.paths import home_dir
from openclaw.config.secret_store import SecretStore
from openclaw.core.clock import SystemClock
from openclaw.core.errors import NotFound, OpenClawError, OperatorFacing
from openclaw.core.installed import uninstall_command


def register(parser: argparse.ArgumentParser) -> None:
    option(parser, "--yes", "do it without asking")
    option(parser, "--delete-data", "also delete the state directory and stored secrets")


def run(args: argparse.Namespace, env: Environment) -> None:
    what = "Remove the gateway's service and OpenClaw's entries in other programs"
    if args.delete_data:
        _check_deletable(env)
        what = f"{what}, and delete {env.paths.root} with everything in it"
    if not env.confirms(args, what, "do it"):
        env.say("Nothing was removed.")
        return
    stop_gateway(env)
    remove_service(env)
    for client in plans.moved_before(env):
        try:
            _write(env, hub_clients.leaving_hub(env, [client]))
        except OpenClawError as error:
            env.warn(f"The servers of {client} could not be given back: {error.message}")
    _write(env, plans.unregistering(env, list(plans.CLIENTS)))
    if args.delete_data:
        _delete_data(env)
    else:
        env.say(f"Your data stay in {env.paths.root}.")
    env.say(f"To remove the program: {uninstall_command()}")


def _write(env: Environment, plan: plans.Plan) -> None:
    written, _ = plans.write_all(env, plan, SystemClock())
    for path, backup in written:
        env.say(f"Removed OpenClaw from {path} (previous version: {backup})")
    for note in plan.left_out:
        env.warn(note)


def _check_deletable(env: Environment) -> None:
    """Raise unless the state directory is one that only we use."""
    root, home = env.paths.root.resolve(), home_dir(env.environ).resolve()
    if home.is_relative_to(root):
        raise OperatorFacing(f"{root} has more in it than OpenClaw's data; delete it yourself")


def _delete_data(env: Environment) -> None:
    store = SecretStore(env.environ)
    with suppress(OpenClawError):  # an unreadable file is deleted below
        for name in store.names():
            with suppress(NotFound):
                store.remove(name)  # some are in the system's keyring
    shutil.rmtree(env.paths.root, ignore_errors=True)
    if env.paths.root.exists():
        raise OperatorFacing(f"{env.paths.root} could not be deleted completely")
    env.say(f"Deleted {env.paths.root}.")
