"""Starting and ending one small program: bare, with limits, in bubblewrap, behind Landlock."""

import os
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from harness import Contender, compare, report

from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.sandbox.confinement import Sandbox, SandboxSupport, detect_support
from openclaw.mcp_client.transport.child_process import Program, popen

ENVIRON = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
LIMITS = {"memoryMb": 1000, "openFiles": 100, "cpuSeconds": 10}


def starting(means: SandboxSupport | None = None, **entry: Any) -> Callable[[], None]:
    """Start `true` as this entry says, and wait for its end."""
    config = McpServerConfig.model_validate({"command": "true", **entry})
    sandbox = Sandbox(ENVIRON, Path(tempfile.mkdtemp()), means=means)

    def run() -> None:
        with popen(sandbox.confine(config, Program("true", (), ENVIRON))) as process:
            process.communicate()

    return run


def main() -> None:
    here = detect_support(ENVIRON["PATH"])
    contenders = [
        Contender("bare", starting()),
        Contender("limits", starting(limits=LIMITS)),
    ]
    if here.bubblewrap:
        contenders.append(Contender("bubblewrap", starting(here, sandbox="strict")))
    if here.landlock:
        alone = SandboxSupport(None, "left out", here.landlock)
        contenders.append(Contender("landlock", starting(alone, sandbox="strict")))
    report([compare("starting a confined program", contenders, rounds=40)])


if __name__ == "__main__":
    main()
