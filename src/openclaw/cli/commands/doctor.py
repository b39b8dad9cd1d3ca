"""Find problems with the set-up and say how to fix them.

It starts each MCP server once. The exit code is 1 if something keeps OpenClaw from working or
makes it unsafe, and 0 if there are only warnings.
"""

import argparse
from typing import Any

from openclaw.cli.environment import Environment
from openclaw.cli.parser import add_json
from openclaw.cli.render.terminal import counted
from openclaw.cli.setup.checks import ERROR, OK, WARNING, Finding, examine
from openclaw.core.errors import EXIT_FAILED, EXIT_OK

_MARKS = {OK: "ok     ", WARNING: "warning", ERROR: "error  "}


def register(parser: argparse.ArgumentParser) -> None:
    add_json(parser)


def run(args: argparse.Namespace, env: Environment) -> int:
    findings = list(examine(env, start=True))
    errors = sum(finding.level == ERROR for finding in findings)
    warnings = sum(finding.level == WARNING for finding in findings)
    lines: list[str] = []
    for finding in findings:
        lines.append(f"{_MARKS[finding.level]}  {finding.check}: {finding.message}")
        lines += [f"         -> {finding.hint}"] if finding.hint else []
    lines.append(f"\n{counted(errors, 'error')}, {counted(warnings, 'warning')}")
    env.report(args, {"findings": [_as_json(finding) for finding in findings]}, *lines)
    return EXIT_FAILED if errors else EXIT_OK


def _as_json(finding: Finding) -> dict[str, Any]:
    body: dict[str, Any] = {
        "check": finding.check,
        "level": finding.level,
        "message": finding.message,
    }
    return body | ({"hint": finding.hint} if finding.hint else {})
