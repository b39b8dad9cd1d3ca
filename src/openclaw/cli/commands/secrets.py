"""Store secrets, and check that every reference to one resolves. Values are never printed.

Secrets are stored in the system keyring if there is one, otherwise in a private file; the
configuration refers to them as secret://store/NAME.
"""

import argparse
import getpass
from collections.abc import Mapping
from typing import Any

import anyio

from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_action, option
from openclaw.config.secret_store import SecretStore
from openclaw.config.sensitive import references
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, InvalidRequest, SecretUnavailable, describe
from openclaw.secrets.refs import SecretRef, parse


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    check = add_action(actions, "check", "check that references resolve", _check)
    only = "only this reference, not all in the configuration"
    option(check, "[REF]", only, dest="reference")
    keep = add_action(actions, "set", "store a secret: type it (hidden) or pipe it in", _set)
    option(keep, "NAME", "its name in secret://store/NAME")
    option(keep, "--in-file", "use the private file, not the keyring")
    add_action(actions, "list", "list the names of stored secrets", _list)
    option(add_action(actions, "remove", "delete a stored secret", _remove), "NAME", "its name")


def _set(args: argparse.Namespace, env: Environment) -> None:
    value = hidden_line(env, f"Value of {args.name} (not shown): ")
    if not value:
        raise InvalidRequest("no value was given", hint="type it, or pipe it in")
    env.redactor.register(value)
    where = SecretStore(env.environ).set(args.name, value, keyring=False if args.in_file else None)
    reference = f"secret://store/{args.name}"
    message = f"Stored in {where}. Refer to it as {reference}"
    env.report(args, {"reference": reference, "where": where}, message)


def hidden_line(env: Environment, prompt: str) -> str:
    """A line that is not shown while it is typed; on a pipe, all of stdin without its last newline."""
    if not env.stdin.isatty():
        return env.stdin.read().removesuffix("\n").removesuffix("\r")
    return getpass.getpass(prompt, stream=env.stderr).strip()


def _list(args: argparse.Namespace, env: Environment) -> None:
    names = SecretStore(env.environ).names()
    empty = f"No secrets are stored yet. Store one with: {env.program} secrets set NAME"
    env.report(args, {"secrets": names}, *names, empty=empty)


def _remove(args: argparse.Namespace, env: Environment) -> None:
    SecretStore(env.environ).remove(args.name)
    env.report(args, {"removed": args.name}, f"Removed {args.name}.")


def _check(args: argparse.Namespace, env: Environment) -> int:
    rows: list[dict[str, Any]] = []
    lines: list[str] = []
    for reference, places, problem in check_all(env, only=args.reference):
        rows.append({"reference": reference, "ok": problem is None, "usedBy": places})
        used = f"  ({', '.join(places)})" if places else ""
        if problem is None:
            lines.append(f"ok      {reference}{used}")
            continue
        lines.append(f"failed  {describe(problem)}{used}")
        rows[-1] |= {"reason": problem.reason} | ({"hint": problem.hint} if problem.hint else {})
    empty = "The configuration has no secret references."
    env.report(args, {"secrets": rows}, *lines, empty=empty)
    return EXIT_OK if all(row["ok"] for row in rows) else EXIT_FAILED


def check_all(
    env: Environment, only: str | None = None
) -> list[tuple[str, list[str], SecretUnavailable | None]]:
    """Each reference, where it is used, and why it doesn't resolve, if so."""
    wanted: Mapping[SecretRef, list[str]] = {parse(only): []} if only is not None else {}
    if only is None:
        wanted = references(env.config.model_dump(mode="json", by_alias=True))
    found = anyio.run(env.secrets().try_all, wanted)
    wrong = {ref: one for ref, one in found.items() if isinstance(one, SecretUnavailable)}
    return [(ref.text, list(wanted[ref]), wrong.get(ref)) for ref in wanted]
