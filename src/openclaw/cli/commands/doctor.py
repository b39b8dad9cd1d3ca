"""Find problems with the set-up and say how to fix them.

It starts each MCP server once. The exit code is 1 if something keeps OpenClaw from working or
makes it unsafe, and 0 if there are only warnings.
"""

import argparse
import dataclasses
from typing import Any

from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json, option
from openclaw.cli.render.terminal import counted
from openclaw.cli.setup.checks import ERROR, OK, WARNING, Finding, examine
from openclaw.core.errors import EXIT_FAILED, EXIT_OK


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)
    option(parser, "--fix", "fix what can be fixed safely")


def run(args: argparse.Namespace, env: Environment) -> int:
    found = list(examine(env, start=True))
    findings = [_fixed(finding) for finding in found] if args.fix else found
    errors = sum(finding.level == ERROR for finding in findings)
    warnings = sum(finding.level == WARNING for finding in findings)
    lines: list[str] = []
    facts: list[dict[str, Any]] = []
    for one in findings:
        lines.append(f"{one.level:<7}  {one.check}: {one.message}")
        lines += [f"         -> {one.hint}"] if one.hint else []
        fact = {"check": one.check, "level": one.level, "message": one.message}
        fact |= {"fixable": one.fix is not None} | ({"hint": one.hint} if one.hint else {})
        facts.append(fact)
    fixable = sum(finding.fix is not None for finding in findings)
    more = f"; `{env.program} doctor --fix` fixes {fixable} of them" if fixable else ""
    lines.append(f"\n{counted(errors, 'error')}, {counted(warnings, 'warning')}{more}")
    if args.fix:
        fixed = sum(old.level != new.level for old, new in zip(found, findings, strict=True))
        fine = all(finding.level == OK for finding in found)
        nothing = (
            "There is nothing to fix."
            if fine
            else "--fix cannot fix any of this; follow the hints above."
        )
        lines.append(f"Fixed {fixed}." if fixed else nothing)
    env.report(args, {"findings": facts}, *lines)
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
