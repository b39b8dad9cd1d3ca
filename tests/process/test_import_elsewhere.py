"""Every module can be imported where the modules and flags of POSIX are missing, as on Windows."""

import subprocess
import sys

import pytest

# Other people's packages have branches of their own for Windows: they are loaded as they are here.
IMPORTS = """
import importlib, os, pkgutil, sys
import openclaw

names = sorted(m.name for m in pkgutil.walk_packages(openclaw.__path__, "openclaw."))
names = [name for name in names if not name.endswith("__main__")]
for name in names:  # brings what they import
    importlib.import_module(name)
for name in [n for n in sys.modules if n.startswith("openclaw")]:
    del sys.modules[name]
for name in ("fcntl", "grp", "pwd", "resource", "termios", "tty", "pty"):
    sys.modules[name] = None
for name in ("O_CLOEXEC", "O_DIRECTORY", "O_NOFOLLOW", "O_NONBLOCK", "O_PATH", "fchmod", "killpg",
             "getuid", "geteuid", "setsid", "fork"):
    if hasattr(os, name):
        delattr(os, name)
failed = []
for name in names:
    try:
        importlib.import_module(name)
    except Exception as error:
        failed.append(f"{name}: {error!r}")
print("\\n".join(failed), end="")
print(len(names), "modules", file=sys.stderr)
"""


@pytest.mark.requirement("NFR-2.2")
def test_every_module_is_imported_without_what_only_posix_has() -> None:
    done = subprocess.run(
        [sys.executable, "-c", IMPORTS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == ""
    assert "modules" in done.stderr
