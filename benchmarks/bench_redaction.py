"""One log line, with 500 secrets known: our redactor, and an alternation of the same forms."""

import json
import random
import re
import string
import time
from collections.abc import Callable

from harness import Contender, compare, report

from openclaw.secrets.redactor import Forms, Redactor

SECRETS = 500
LINES = 200


def material() -> tuple[list[str], list[str]]:
    """Secrets of usual lengths, and log lines of which one in twenty contains one."""
    chance = random.Random(7)
    alphabet = string.ascii_letters + string.digits + "-_+/="
    secrets = ["".join(chance.choices(alphabet, k=chance.randint(16, 64))) for _ in range(SECRETS)]
    lines: list[str] = []
    for number in range(LINES):
        tail = json.dumps(chance.choice(secrets)) if number % 20 == 0 else "12 tools, 3 resources"
        lines.append(
            f"20:41:27.{number:03} INFO    openclaw.mcp_client.lifecycle.connection: server docs is ready "
            f"after {chance.random():.2f} s at https://docs.example/mcp with {tail}"
        )
    return secrets, lines


def per_line(redact: Callable[[str], str], lines: list[str]) -> Callable[[], float]:
    """Redact all the lines; the figure is for one."""

    def run() -> float:
        started = time.perf_counter()
        for line in lines:
            redact(line)
        return (time.perf_counter() - started) / len(lines)

    return run


def main() -> None:
    secrets, lines = material()
    redactor = Redactor()
    for secret in secrets:
        redactor.register(secret)
    raw_only = re.compile("|".join(map(re.escape, secrets)))
    wanted = Forms()
    for secret in secrets:
        wanted.add(secret)
    forms = wanted.anywhere
    every_form = re.compile("|".join(map(re.escape, sorted(forms, key=len, reverse=True))))
    few = lines[:3] + lines[20:22]  # it takes milliseconds a line
    report(
        [
            compare(
                f"one log line, {SECRETS} secrets in {len(forms)} forms (goal: 10 µs)",
                [
                    Contender("our redactor", per_line(redactor.redact, lines)),
                    Contender(
                        "regex, raw values only",
                        per_line(lambda line: raw_only.sub("[REDACTED]", line), few),
                    ),
                    Contender(
                        "regex, every form",
                        per_line(lambda line: every_form.sub("[REDACTED]", line), few),
                    ),
                ],
            )
        ]
    )


if __name__ == "__main__":
    main()
