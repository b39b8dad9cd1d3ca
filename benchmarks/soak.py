"""Everything at once for some minutes, and what leaked or was lost; exits 1 where anything did.

python benchmarks/soak.py [--minutes N] [--seed N]
"""

import argparse
import sys
import tempfile
from pathlib import Path

import anyio
from tests.support import gateway_life, soak
from tests.support.gateway_kit import Installation

from openclaw.testing.scripted_model import scripted_model


async def run(minutes: float, seed: int) -> soak.Outcome:
    with tempfile.TemporaryDirectory(prefix="openclaw-soak-") as name:
        state = Path(name) / "state"
        state.mkdir(mode=0o700)
        async with scripted_model(rules=soak.RULES, default=gateway_life.DEFAULT) as model:
            return await soak.soak(Installation(state), model.url, minutes * 60, seed)


def table(outcome: soak.Outcome) -> str:
    doings = [f"  {name:<44} {count}" for name, count in sorted(outcome.done.items())]
    found = [
        f"  {name:<44} {what}{'' if fine else '   WRONG'}" for name, what, fine in outcome.findings
    ]
    return "\n".join(["done", *doings, "found", *found])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    outcome = anyio.run(run, args.minutes, args.seed)
    print(table(outcome))
    return 0 if outcome.well else 1


if __name__ == "__main__":
    sys.exit(main())
