"""Confines itself with Landlock and seccomp, then execs the program; run by `python -I -S`.

usage: landlock.py POLICY COMMAND [ARGUMENT]...

POLICY is JSON: {"read": [PATH], "write": [PATH], "network": BOOL, "sockets": BOOL}. Landlock
can't stop it from connecting to a Unix socket by its path, so unless `sockets` is true COMMAND can
create no Unix sockets except connected pairs. Exits with 126, after saying why on stderr, if the
kernel can't enforce all of it: nothing ever runs unconfined by mistake. Standard library only, to
start fast.
"""

import ctypes
import json
import os
import platform
import socket
import stat
import struct
import sys

AF_UNIX, AF_VSOCK = 1, 40  # not every system has the names
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
ALLOW, DENY = 0x7FFF0000, 0x00050000
X32_CALLS = 0x40000000  # from here on, x86_64 has every call a second time
# Of each machine: its number, and those of the calls socket, socketpair and io_uring_setup.
MACHINES = {"x86_64": (0xC000003E, 41, 53, 425), "aarch64": (0xC00000B7, 198, 199, 425)}
LOAD, EQUAL, AT_LEAST, AND, RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
CALL, MACHINE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in `struct seccomp_data`
EPERM, EACCES, ENOSYS = 1, 13, 38
KIND_OF_SOCKET = 0xF


class Filter(ctypes.Structure):
    """`struct sock_fprog`"""

    _fields_ = (("length", ctypes.c_ushort), ("instructions", ctypes.c_char_p))


class LandlockRefused(Exception):
    """Raised when the kernel refuses a restriction."""


_libc = ctypes.CDLL(None, use_errno=True)
_libc.syscall.restype = ctypes.c_long


def call(number: int, *arguments: int | bytes | None) -> int:
    """One system call; bytes are the struct that an argument points to."""
    words = (ctypes.c_long(one) if isinstance(one, int) else one for one in arguments)
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


def can_filter(machine: str | None = None) -> bool:
    """Whether we know this machine's system calls well enough to block Unix sockets."""
    return sys.platform == "linux" and (machine or platform.machine()) in MACHINES


def socket_filter(machine: str, family: int = AF_UNIX) -> bytes:
    """The seccomp program that refuses to make a socket of this family.

    Connected pairs that can't be connected again are allowed: programs talk to their own children
    through them. Calls of another instruction set are refused, and so is io_uring, which can create
    sockets without a system call.
    """
    kernel_name, make, make_pair, uring = MACHINES[machine]
    allow, refuse, missing, foreign = "allow", "refuse", "missing", "foreign"
    program: list[tuple[int, int, str | None, str | None]] = [
        (LOAD, MACHINE, None, None),
        (EQUAL, kernel_name, None, foreign),
        (LOAD, CALL, None, None),
        (AT_LEAST, X32_CALLS, foreign, None),
        (EQUAL, uring, missing, None),
        (EQUAL, make, "socket", None),
        (EQUAL, make_pair, None, allow),
        (LOAD, FIRST_ARGUMENT, None, None),
        (EQUAL, family, None, allow),
        (LOAD, SECOND_ARGUMENT, None, None),
        (AND, KIND_OF_SOCKET, None, None),
        (EQUAL, socket.SOCK_STREAM, allow, None),
        (EQUAL, socket.SOCK_SEQPACKET, allow, refuse),
        (LOAD, FIRST_ARGUMENT, None, None),  # "socket"
        (EQUAL, family, refuse, allow),
        (RETURN, ALLOW, None, None),
        (RETURN, DENY | EACCES, None, None),
        (RETURN, DENY | ENOSYS, None, None),
        (RETURN, DENY | EPERM, None, None),
    ]
    positions = {"socket": 13, allow: 15, refuse: 16, missing: 17, foreign: 18}

    def distance(at: int, label: str | None) -> int:
        return 0 if label is None else positions[label] - at - 1

    return b"".join(
        struct.pack("=HBBI", code, distance(at, then), distance(at, otherwise), value)
        for at, (code, value, then, otherwise) in enumerate(program)
    )


def block_unix_sockets() -> None:
    if not can_filter():
        raise LandlockRefused(f"Unix sockets cannot be blocked on {platform.machine()}")
    program = socket_filter(platform.machine())
    wanted = Filter(len(program) // 8, program)
    if _libc.prctl(SET_SECCOMP, FILTER_MODE, ctypes.byref(wanted), 0, 0):
        raise LandlockRefused(f"seccomp was refused: {os.strerror(ctypes.get_errno())}")


def confine(read: list[str], write: list[str], *, network: bool) -> None:
    abi = version()
    if not abi:
        raise LandlockRefused("this kernel has no Landlock")
    rules = ruleset(abi, network=network)
    for path in read:
        allow(rules, path, READING)
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
        confine(policy["read"], policy["write"], network=policy["network"])
        if not policy.get("sockets"):
            block_unix_sockets()
        os.execv(arguments[1], arguments[1:])  # noqa: S606  becoming the server is the purpose
    except (LandlockRefused, OSError) as error:
        sys.stderr.write(f"the sandbox could not be set up: {error}\n")
        sys.exit(REFUSED)


if __name__ == "__main__":
    main(sys.argv[1:])
