"""The seccomp filter of every sandbox: which system calls a confined program may not make.

The list is Flatpak's, without what debuggers need (`ptrace`, `personality`), and with `bpf`,
`userfaultfd` and io_uring, which can create sockets without a system call. The kernel's keyrings
hold other programs' secrets, and belong to no file system or namespace that could hide them.
"""

import errno
import platform
import socket
import struct
import sys
from dataclasses import dataclass

ALLOW, DENY = 0x7FFF0000, 0x00050000
X32_CALLS = 0x40000000  # from here on, x86_64 has every call a second time
LOAD, EQUAL, AT_LEAST, ANY_BIT, AND, RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06
CALL, MACHINE, FIRST_ARGUMENT, SECOND_ARGUMENT = 0, 4, 16, 24  # offsets in `struct seccomp_data`

AF_UNIX = 1  # not every system has the name
KIND_OF_SOCKET = 0xF
# Netlink is how programs learn this machine's addresses. Others reach devices, virtual machines'
# hosts (vsock), or rarely used parts of the kernel.
FAMILIES = (2, 10, 16)  # IPv4, IPv6, netlink
NEW_NAMESPACES = 0x7E020000  # CLONE_NEW*, but for time
TYPE_INTO_TERMINAL = (0x5412, 0x541C)  # TIOCSTI and TIOCLINUX


@dataclass(frozen=True, slots=True)
class CallNumbers:
    """One machine's numbers. `missing` look as if the kernel didn't have them."""

    machine: int
    denied: tuple[int, ...]
    socket: int
    socketpair: int
    clone: int
    unshare: int
    ioctl: int
    # io_uring_setup, _enter, _register, open_tree, move_mount, fsopen, fsconfig, fsmount, fspick,
    # clone3, mount_setattr: on every machine the same. Programs fall back on older calls, such as
    # clone, whose arguments a filter can see.
    missing: tuple[int, ...] = (425, 426, 427, 428, 429, 430, 431, 432, 433, 435, 442)


# Denied, in this order: add_key, request_key, keyctl; mount, umount2, pivot_root, chroot, setns;
# syslog, acct, quotactl, quotactl_fd, open_by_handle_at; perf_event_open, bpf, userfaultfd;
# mbind, set_mempolicy, get_mempolicy, migrate_pages, move_pages, set_mempolicy_home_node; uselib
MACHINES = {
    "x86_64": CallNumbers(
        machine=0xC000003E,
        denied=(
            *(248, 249, 250),
            *(165, 166, 155, 161, 308),
            *(103, 163, 179, 443, 304),
            *(298, 321, 323),
            *(237, 238, 239, 256, 279, 450),
            134,
        ),
        socket=41,
        socketpair=53,
        clone=56,
        unshare=272,
        ioctl=16,
    ),
    "aarch64": CallNumbers(
        machine=0xC00000B7,
        denied=(
            *(217, 218, 219),
            *(40, 39, 41, 51, 268),
            *(116, 89, 60, 443, 265),
            *(241, 280, 282),
            *(235, 237, 236, 238, 239, 450),
        ),
        socket=198,
        socketpair=199,
        clone=220,
        unshare=97,
        ioctl=29,
    ),
}


def can_filter(machine: str | None = None) -> bool:
    """Whether we know this machine's system calls."""
    return sys.platform == "linux" and (machine or platform.machine()) in MACHINES


def system_call_filter(machine: str | None = None, *, unix_sockets: bool) -> bytes:
    """The seccomp program. Calls of another instruction set are refused.

    Without `unix_sockets` there are only connected pairs that can't be connected again: programs
    talk to their own children through them.
    """
    numbers = MACHINES[machine or platform.machine()]
    refuse = errno.EACCES
    program = _Program()
    program.load(MACHINE)
    program.unless(EQUAL, numbers.machine, "denied")
    program.load(CALL)
    program.when(AT_LEAST, X32_CALLS, "denied")
    for number in numbers.missing:
        program.when(EQUAL, number, "missing")
    for number in numbers.denied:
        program.when(EQUAL, number, "denied")
    program.when(EQUAL, numbers.ioctl, "ioctl")
    program.when(EQUAL, numbers.clone, "clone")
    program.when(EQUAL, numbers.unshare, "clone")
    program.when(EQUAL, numbers.socket, "socket")
    program.unless(EQUAL, numbers.socketpair, "allowed")
    if not unix_sockets:
        program.load(SECOND_ARGUMENT)
        program.add(AND, KIND_OF_SOCKET)
        program.when(EQUAL, socket.SOCK_STREAM, "allowed")
        program.unless(EQUAL, socket.SOCK_SEQPACKET, "refused")
    program.end("allowed", ALLOW)
    program.label("socket")
    program.load(FIRST_ARGUMENT)
    for family in (*FAMILIES, *([AF_UNIX] if unix_sockets else [])):
        program.when(EQUAL, family, "allowed too")
    program.when(EQUAL, AF_UNIX, "refused")
    program.add(RETURN, DENY | errno.EAFNOSUPPORT)
    program.label("clone")
    program.load(FIRST_ARGUMENT)
    program.when(ANY_BIT, NEW_NAMESPACES, "denied")
    program.add(RETURN, ALLOW)
    program.label("ioctl")
    program.load(SECOND_ARGUMENT)
    for request in TYPE_INTO_TERMINAL:
        program.when(EQUAL, request, "denied")
    program.end("allowed too", ALLOW)
    program.end("refused", DENY | refuse)
    program.end("missing", DENY | errno.ENOSYS)
    program.end("denied", DENY | errno.EPERM)
    return program.assembled()


class _Program:
    """A program of the kernel's packet filter; a jump only leads forward, to a label."""

    def __init__(self) -> None:
        self._steps: list[tuple[int, int, str | None, str | None]] = []
        self._labels: dict[str, int] = {}

    def add(self, code: int, value: int) -> None:
        self._steps.append((code, value, None, None))

    def load(self, offset: int) -> None:
        self.add(LOAD, offset)

    def when(self, code: int, value: int, label: str) -> None:
        self._steps.append((code, value, label, None))

    def unless(self, code: int, value: int, label: str) -> None:
        self._steps.append((code, value, None, label))

    def label(self, name: str) -> None:
        self._labels[name] = len(self._steps)

    def end(self, label: str, verdict: int) -> None:
        self.label(label)
        self.add(RETURN, verdict)

    def _distance(self, index: int, label: str | None) -> int:
        return 0 if label is None else self._labels[label] - index - 1

    def assembled(self) -> bytes:
        return b"".join(
            struct.pack(
                "=HBBI", code, self._distance(index, then), self._distance(index, other), value
            )
            for index, (code, value, then, other) in enumerate(self._steps)
        )
