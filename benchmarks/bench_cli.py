"""How long `openclaw --version` takes against a Python that does nothing."""

import subprocess
import sys
from pathlib import Path

from harness import Contender, compare, report


def _spawn(*command: str) -> Contender:
    def run() -> None:
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)

    return Contender(" ".join(Path(word).name for word in command), run)


def main() -> None:
    openclaw = str(Path(sys.executable).with_name("openclaw"))
    report(
        [
            compare(
                "start-up",
                [_spawn(sys.executable, "-c", "pass"), _spawn(openclaw, "--version")],
                rounds=40,
                limit=2.0,
            )
        ]
    )


if __name__ == "__main__":
    main()
