"""Keep secrets, and check that every reference to one resolves. A value is never printed.

Stored secrets are in the system's keyring if there is one, else in a private file; the configuration
refers to them as secret://store/NAME.
"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from openclaw.cli.environment import Environment
from openclaw.core.errors import EXIT_FAILED, EXIT_OK, InvalidRequest, SecretUnavailable, describe
from openclaw.secrets.refs import SecretRef, parse

if TYPE_CHECKING:
    from openclaw.config.schema import Config
    from openclaw.secrets.refs import Secret
    from openclaw.secrets.resolver import SecretResolver


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """A reference, where it is used, and why it does not resolve, where it does not."""

    reference: str
    places: tuple[str, ...]
    problem: SecretUnavailable | None


def register(parser: argparse.ArgumentParser) -> None:
    actions = parser.add_subparsers(metavar="ACTION", required=True)
    summary = "resolve references and say ok or the reason"
    check = actions.add_parser("check", help=summary, description=summary)
    check.add_argument(
        "reference",
        nargs="?",
        metavar="REF",
        help="only this reference, not all in the configuration",
    )
    summary = "store a secret, typed hidden or read from a pipe"
    keep = actions.add_parser("set", help=summary, description=summary)
    keep.add_argument("name", metavar="NAME", help="what secret://store/NAME calls it")
    keep.add_argument("--in-file", action="store_true", help="use the private file, not a keyring")
    summary = "list the names of stored secrets"
    names = actions.add_parser("list", help=summary, description=summary)
    summary = "forget a stored secret"
    remove = actions.add_parser("remove", help=summary, description=summary)
    remove.add_argument("name", metavar="NAME", help="its name")
    for action, run_it in ((check, _check), (keep, _set), (names, _list), (remove, _remove)):
        action.add_argument("--json", action="store_true", help="print JSON and nothing else")
        action.set_defaults(action=run_it)


def run(args: argparse.Namespace, env: Environment) -> int:
    return args.action(args, env)


def _set(args: argparse.Namespace, env: Environment) -> int:
    from openclaw.config.secret_store import SecretStore

    value = hidden_line(env, f"Value of {args.name} (not shown): ")
    if not value:
        raise InvalidRequest("no value was given", hint="type it, or send it through a pipe")
    env.redactor.register(value)
    where = SecretStore(env.environ).set(args.name, value, keyring=False if args.in_file else None)
    if args.json:
        env.say_json({"reference": f"secret://store/{args.name}", "where": where})
    else:
        env.say(f"Stored in {where}. Refer to it as secret://store/{args.name}")
    return EXIT_OK


def hidden_line(env: Environment, prompt: str) -> str:
    """One line that is not shown while it is typed; all of stdin on a pipe, without its last newline."""
    if not env.stdin.isatty():
        return env.stdin.read().removesuffix("\n").removesuffix("\r")
    import getpass

    return getpass.getpass(prompt, stream=env.stderr).strip()


def _list(args: argparse.Namespace, env: Environment) -> int:
    from openclaw.config.secret_store import SecretStore

    names = SecretStore(env.environ).names()
    if args.json:
        env.say_json({"secrets": names})
        return EXIT_OK
    for name in names:
        env.say(name)
    if not names:
        env.say(f"Nothing is stored. Store a secret with: {env.program} secrets set NAME")
    return EXIT_OK


def _remove(args: argparse.Namespace, env: Environment) -> int:
    from openclaw.config.secret_store import SecretStore

    SecretStore(env.environ).remove(args.name)
    if args.json:
        env.say_json({"removed": args.name})
    else:
        env.say(f"Removed {args.name}.")
    return EXIT_OK


def _check(args: argparse.Namespace, env: Environment) -> int:
    config = env.load_config().config
    findings = check_all(env, config, only=args.reference)
    if args.json:
        env.say_json({"secrets": [_as_json(finding) for finding in findings]})
    else:
        _print(env, findings)
    return EXIT_FAILED if any(finding.problem for finding in findings) else EXIT_OK


def check_all(env: Environment, config: "Config", only: str | None = None) -> list[SecretFinding]:
    import anyio

    from openclaw.config.sensitive import references
    from openclaw.runtime.host import open_secrets

    resolver = open_secrets(config, env.environ, env.redactor)
    wanted: Mapping[SecretRef, list[str]]
    if only is not None:
        wanted = {parse(only): []}
    else:
        wanted = references(config.model_dump(mode="json", by_alias=True))
    return anyio.run(_checked, resolver, wanted)


async def _checked(
    resolver: "SecretResolver", wanted: Mapping[SecretRef, list[str]]
) -> list[SecretFinding]:
    outcomes: dict[SecretRef, Secret | SecretUnavailable] = await resolver.try_all(wanted)
    return [
        SecretFinding(
            ref.text,
            tuple(places),
            outcome if isinstance(outcome := outcomes[ref], SecretUnavailable) else None,
        )
        for ref, places in wanted.items()
    ]


def _as_json(finding: SecretFinding) -> dict[str, Any]:
    body: dict[str, Any] = {
        "reference": finding.reference,
        "ok": finding.problem is None,
        "usedBy": list(finding.places),
    }
    if finding.problem is not None:
        body["reason"] = finding.problem.reason
        if finding.problem.hint:
            body["hint"] = finding.problem.hint
    return body


def _print(env: Environment, findings: list[SecretFinding]) -> None:
    if not findings:
        env.say("The configuration has no secret references.")
    for finding in findings:
        used = f"  ({', '.join(finding.places)})" if finding.places else ""
        if finding.problem is None:
            env.say(f"ok      {finding.reference}{used}")
        else:
            env.say(f"failed  {describe(finding.problem)}{used}")
