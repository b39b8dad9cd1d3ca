"""Find problems with the set-up and say how to fix them.

It starts each MCP server once. The exit code is 1 if something keeps OpenClaw from working or
makes it unsafe, and 0 if there are only warnings.
"""

import argparse
import dataclasses
from typing import Any

from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json
from openclaw.cli.render.terminal import counted
from openclaw.cli.setup.checks import ERROR, OK, WARNING, Finding, examine
from openclaw.core.errors import EXIT_FAILED, EXIT_OK

_MARKS = {OK: "ok     ", WARNING: "warning", ERROR: "error  "}


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    parser.add_argument("--fix", action="store_true", help="fix what can be fixed safely")


def run(args: argparse.Namespace, env: Environment) -> int:
    findings = list(examine(env, start=True))
    fixable = sum(finding.fix is not None for finding in findings)
    if args.fix:
        findings = [_fixed(finding) for finding in findings]
    if args.json:
        env.say_json({"findings": [_as_json(finding) for finding in findings]})
    else:
        _print(env, findings)
        if args.fix:
            env.say(f"Fixed {fixable}." if fixable else _nothing_fixed(findings))
    return EXIT_FAILED if any(finding.level == ERROR for finding in findings) else EXIT_OK


def _fixed(finding: Finding) -> Finding:
    if finding.fix is None:
        return finding
    finding.fix()
    return dataclasses.replace(
        finding, level=OK, message=f"fixed: {finding.message}", hint=None, fix=None
    )


def _nothing_fixed(findings: list[Finding]) -> str:
    if all(finding.level == OK for finding in findings):
        return "There is nothing to fix."
    return "--fix cannot fix any of this; follow the hints above."


def _as_json(finding: Finding) -> dict[str, Any]:
    body: dict[str, Any] = {
        "check": finding.check,
        "level": finding.level,
        "message": finding.message,
        "fixable": finding.fix is not None,
    }
    return body | ({"hint": finding.hint} if finding.hint else {})


def _print(env: Environment, findings: list[Finding]) -> None:
    for finding in findings:
        env.say(f"{_MARKS[finding.level]}  {finding.check}: {finding.message}")
        if finding.hint:
            env.say(f"         -> {finding.hint}")
    errors = sum(finding.level == ERROR for finding in findings)
    warnings = sum(finding.level == WARNING for finding in findings)
    fixable = sum(finding.fix is not None for finding in findings)
    more = f"; `{env.program} doctor --fix` fixes {fixable} of them" if fixable else ""
    env.say(f"\n{counted(errors, 'error')}, {counted(warnings, 'warning')}{more}")
