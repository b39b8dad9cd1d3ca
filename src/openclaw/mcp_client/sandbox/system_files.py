"""What every confined program may read of the machine, and its way to the settings it looks up.

`/etc` is readable but for secrets: what not everybody on the machine may read, and some names that
hold secrets wherever somebody was careless.
"""

import os
import stat
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from openclaw.config import paths

SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/opt", "/nix/store", "/gnu/store")
RESOLVER = ("/run/systemd/resolve",)  # where /etc/resolv.conf may point to
DEVICES = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty")
SETTINGS = Path("/etc")

_SECRET = frozenset(
    [
        "shadow",
        "shadow-",
        "gshadow",
        "gshadow-",
        "passwd-",
        "group-",
        "sudoers",
        "sudoers.d",
        "environment",
        "opasswd",
        "krb5.keytab",
        "chap-secrets",
        "pap-secrets",
        "ipsec.secrets",
        "wireguard",
        "openvpn",
        "wpa_supplicant",
        "system-connections",
        "auth.conf",
        "auth.conf.d",
        "sasl_passwd",
        "passwd.client",
        "debian.cnf",
        "private",
        "letsencrypt",
        "kubernetes",
        "rancher",
        "docker",
        "credstore",
        "credstore.encrypted",
        ".pwd.lock",
    ]
)
_FOR_EVERYBODY = stat.S_IROTH
_ENTERED_BY_EVERYBODY = stat.S_IROTH | stat.S_IXOTH


@dataclass(frozen=True, slots=True)
class OpenSettings:
    """Everything under `/etc` but secrets, either as what is open or as what is hidden."""

    readable: tuple[Path, ...]
    hidden: tuple[Path, ...]


def open_settings(root: Path = SETTINGS) -> OpenSettings:
    try:
        return _open_settings(root, root.stat().st_mtime_ns)
    except OSError:
        return OpenSettings((), (root,))


@lru_cache(maxsize=4)
def _open_settings(root: Path, changed: int) -> OpenSettings:
    readable, hidden = _sorted_out(root)
    return OpenSettings(tuple(readable), tuple(hidden))


def _sorted_out(directory: Path) -> tuple[list[Path], list[Path]]:
    readable: list[Path] = []
    hidden: list[Path] = []
    try:
        names = sorted(path.name for path in directory.iterdir())
        modes = [(directory / name).lstat().st_mode for name in names]
    except OSError:
        return [], [directory]
    for name, mode in zip(names, modes, strict=True):
        path, is_directory = directory / name, stat.S_ISDIR(mode)
        needed = _ENTERED_BY_EVERYBODY if is_directory else _FOR_EVERYBODY
        if stat.S_ISLNK(mode):
            continue  # what it leads to decides
        if _is_secret(name) or mode & needed != needed:
            hidden.append(path)
        elif is_directory:
            inner, inner_hidden = _sorted_out(path)
            readable += inner
            hidden += inner_hidden
        else:
            readable.append(path)
    return ([directory], []) if not hidden else (readable, hidden)


def _is_secret(name: str) -> bool:
    host_key = name.startswith("ssh_host_") and not name.endswith(".pub")
    return name in _SECRET or host_key


def link_into_home(own_home: Path, home: Path, readable: Iterable[Path]) -> None:
    """Let programs find these files of `home` where they look for them in their own home.

    The program can put anything into its home, so no link in it is followed.
    """
    if not hasattr(os, "O_DIRECTORY"):  # no Landlock there
        return
    for path in readable:
        if path.is_relative_to(home) and path != home:
            with suppress(OSError), ExitStack() as stack:
                *parents, name = path.relative_to(home).parts
                flags = os.O_RDONLY | paths.DIRECTORY | paths.NOFOLLOW | paths.CLOEXEC
                descriptor = os.open(own_home, flags)
                stack.callback(os.close, descriptor)
                for parent in parents:
                    with suppress(FileExistsError):
                        os.mkdir(parent, paths.PRIVATE_DIRECTORY, dir_fd=descriptor)
                    descriptor = os.open(parent, flags, dir_fd=descriptor)
                    stack.callback(os.close, descriptor)
                os.symlink(path, name, dir_fd=descriptor)
