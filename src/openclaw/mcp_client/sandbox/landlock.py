"""Confines itself with Landlock and seccomp, then execs the program; run by `python -I -S`.

usage: landlock.py POLICY COMMAND [ARGUMENT]...

POLICY is JSON: {"read": [PATH], "list": [PATH], "write": [PATH], "network": BOOL, "filter": HEX};
of directories in `list` only the names can be read. Landlock can't stop it from connecting to a
Unix socket by its path; `filter`, a seccomp program, does. Exits with 126, after saying why on
stderr, if the kernel can't enforce all of it: nothing ever runs unconfined by mistake. Standard
library only, to start fast.
"""

import contextlib
import ctypes
import json
import os
import platform
import stat
import struct
import sys

CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
GET_VERSION = 1
PATH_BENEATH = 1
NO_NEW_PRIVS = 38
DROP_FROM_BOUNDING_SET = 24
MOST_CAPABILITIES = 64
EXECUTE, WRITE_FILE, READ_FILE, READ_DIR = 1, 2, 4, 8
TRUNCATE, IOCTL_DEV = 1 << 14, 1 << 15
FIRST_RIGHTS = (1 << 13) - 1
REFER = 1 << 13
OF_FILES = EXECUTE | WRITE_FILE | READ_FILE | TRUNCATE | IOCTL_DEV
READING = EXECUTE | READ_FILE | READ_DIR
BIND_TCP_AND_CONNECT_TCP = 3
ABSTRACT_SOCKETS_AND_SIGNALS = 3
REFUSED = 126
SET_SECCOMP, FILTER_MODE = 22, 2
KEYCTL = {"x86_64": 250, "aarch64": 219}
JOIN_SESSION_KEYRING = 1


class Filter(ctypes.Structure):
    """`struct sock_fprog`"""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class LandlockRefused(Exception):
    """Raised when the kernel refuses a restriction."""


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(number: int, *arguments: int | bytes | None) -> int:
    """One system call; bytes are the struct that an argument points to."""
    words = (
        ctypes.c_long(argument) if isinstance(argument, int) else argument for argument in arguments
    )
    result = int(_libc.syscall(ctypes.c_long(number), *words))
    if result < 0:
        raise LandlockRefused(os.strerror(ctypes.get_errno()))
    return result


def version() -> int:
    try:
        return call(CREATE_RULESET, None, 0, GET_VERSION)
    except LandlockRefused:
        return 0


def rights_of(abi: int) -> int:
    rights = FIRST_RIGHTS
    for since, right in ((2, REFER), (3, TRUNCATE), (5, IOCTL_DEV)):
        if abi >= since:
            rights |= right
    return rights


def ruleset(abi: int, *, network: bool) -> int:
    tcp = BIND_TCP_AND_CONNECT_TCP if abi >= 4 and not network else 0
    scoped = ABSTRACT_SOCKETS_AND_SIGNALS if abi >= 6 else 0
    attributes = struct.pack("=QQQ", rights_of(abi), tcp, scoped)  # landlock_ruleset_attr
    return call(CREATE_RULESET, attributes, 8 if abi < 4 else 16 if abi < 6 else 24, 0)


def allow(rules: int, path: str, rights: int) -> None:
    """Add a rule; a path that doesn't exist needs none."""
    if sys.platform != "linux":  # nothing else has Landlock
        return
    try:
        descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return
    try:
        if not stat.S_ISDIR(os.fstat(descriptor).st_mode):
            rights &= OF_FILES
        rule = struct.pack("=Qi", rights, descriptor)  # landlock_path_beneath_attr
        call(ADD_RULE, rules, PATH_BENEATH, rule, 0)
    finally:
        os.close(descriptor)


def filter_system_calls(program: bytes) -> None:
    wanted = Filter(len(program) // 8, program)
    if _libc.prctl(SET_SECCOMP, FILTER_MODE, ctypes.byref(wanted), 0, 0):
        raise LandlockRefused(f"seccomp was refused: {os.strerror(ctypes.get_errno())}")


def leave_session_keyring() -> None:
    """Start with an empty session keyring; a kernel without keyrings has nothing to leave."""
    if (number := KEYCTL.get(platform.machine())) is not None:
        with contextlib.suppress(LandlockRefused):
            call(number, JOIN_SESSION_KEYRING, None)


def confine(read: list[str], write: list[str], listed: list[str], *, network: bool) -> None:
    abi = version()
    if not abi:
        raise LandlockRefused("this kernel has no Landlock")
    rules = ruleset(abi, network=network)
    for path in read:
        allow(rules, path, READING)
    for path in listed:
        allow(rules, path, READ_DIR)
    for path in write:
        allow(rules, path, rights_of(abi))
    # With root's capabilities it could still read other processes' environments.
    for capability in range(MOST_CAPABILITIES):
        _libc.prctl(DROP_FROM_BOUNDING_SET, capability, 0, 0, 0)
    if _libc.prctl(NO_NEW_PRIVS, 1, 0, 0, 0):
        raise LandlockRefused("no_new_privs was refused")
    call(RESTRICT_SELF, rules, 0)
    os.close(rules)


def main(arguments: list[str]) -> None:
    policy = json.loads(arguments[0])
    try:
        confine(policy["read"], policy["write"], policy["list"], network=policy["network"])
        leave_session_keyring()
        if policy["filter"]:
            filter_system_calls(bytes.fromhex(policy["filter"]))
        os.execv(arguments[1], arguments[1:])  # noqa: S606  becoming the server is the purpose
    except (LandlockRefused, OSError) as error:
        sys.stderr.write(f"the sandbox could not be set up: {error}\n")
        sys.exit(REFUSED)


if __name__ == "__main__":
    main(sys.argv[1:])
