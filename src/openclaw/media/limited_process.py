"""Runs one of our modules with bounds on memory and CPU time.

usage: python -m openclaw.media.limited_process BYTES SECONDS MODULE [ARGUMENT]...
"""

import runpy
import sys


def limit(memory_bytes: int, cpu_seconds: int) -> None:
    if sys.platform == "win32":
        return  # the caller's time limit holds there too
    import resource

    for what, amount in (
        (resource.RLIMIT_AS, memory_bytes),
        (resource.RLIMIT_CPU, cpu_seconds),
        (resource.RLIMIT_CORE, 0),
        (resource.RLIMIT_FSIZE, 0),
    ):
        resource.setrlimit(what, (amount, amount))


def main(argv: list[str]) -> None:
    memory, seconds, module, *rest = argv
    limit(int(memory), int(seconds))
    sys.argv = [module, *rest]
    runpy.run_module(module, run_name="__main__", alter_sys=True)


if __name__ == "__main__":
    main(sys.argv[1:])
