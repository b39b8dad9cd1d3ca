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
    found = list(examine(env, start=True))
    findings = [_fixed(finding) for finding in found] if args.fix else found
    errors = sum(finding.level == ERROR for finding in findings)
    warnings = sum(finding.level == WARNING for finding in findings)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{_MARKS[finding.level]}  {finding.check}: {finding.message}")
        lines += [f"         -> {finding.hint}"] if finding.hint else []
    fixable = sum(finding.fix is not None for finding in findings)
    more = f"; `{env.program} doctor --fix` fixes {fixable} of them" if fixable else ""
    lines.append(f"\n{counted(errors, 'error')}, {counted(warnings, 'warning')}{more}")
    if args.fix:
        lines.append(_outcome(found, findings))
    env.report(args, {"findings": [_as_json(finding) for finding in findings]}, *lines)
    return EXIT_FAILED if errors else EXIT_OK


def _fixed(finding: Finding) -> Finding:
    if finding.fix is None:
        return finding
    try:
        finding.fix()
    except OSError as error:
        told = f"{finding.message}, and --fix failed: {error.strerror}"
        return dataclasses.replace(finding, message=told, fix=None)
    told = f"fixed: {finding.message}"
    return dataclasses.replace(finding, level=OK, message=told, hint=None, fix=None)


def _outcome(before: list[Finding], after: list[Finding]) -> str:
    fixed = sum(old.level != new.level for old, new in zip(before, after, strict=True))
    if fixed:
        return f"Fixed {fixed}."
    if all(finding.level == OK for finding in before):
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
