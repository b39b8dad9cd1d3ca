"""The seccomp program, run by a small interpreter, for machines that this test does not run on too."""

import socket
import struct

import pytest

from openclaw.mcp_client.sandbox.landlock import (
    ALLOW,
    AND,
    AT_LEAST,
    DENY,
    EACCES,
    ENOSYS,
    EPERM,
    EQUAL,
    LOAD,
    MACHINES,
    RETURN,
    can_filter,
    socket_filter,
)


def verdict(program: bytes, machine: int, call: int, first: int = 0, second: int = 0) -> int:
    data = struct.pack("<IIQ6Q", call, machine, 0, first, second, 0, 0, 0, 0)
    at, value = 0, 0
    while True:
        code, then, otherwise, constant = struct.unpack_from("=HBBI", program, 8 * at)
        at += 1
        if code == RETURN:
            return constant
        if code == LOAD:
            [value] = struct.unpack_from("<I", data, constant)
        elif code == AND:
            value &= constant
        else:
            assert code in (EQUAL, AT_LEAST)
            holds = value == constant if code == EQUAL else value >= constant
            at += then if holds else otherwise


@pytest.mark.parametrize("machine", list(MACHINES))
def test_no_unix_socket_can_be_made_but_a_connected_pair(machine: str) -> None:
    name, make, pair, uring = MACHINES[machine]
    program = socket_filter(machine)
    unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
    flags = 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK

    def asked(call: int, first: int = 0, second: int = 0) -> int:
        return verdict(program, name, call, first, second)

    assert asked(make, unix, stream) == DENY | EACCES
    assert asked(make, unix | 1 << 32, stream) == DENY | EACCES  # the kernel reads 32 bits
    assert asked(make, socket.AF_INET, stream) == ALLOW
    assert asked(pair, unix, stream | flags) == ALLOW
    assert asked(pair, unix, socket.SOCK_SEQPACKET) == ALLOW
    assert asked(pair, unix, datagram | flags) == DENY | EACCES
    assert asked(pair, unix, socket.SOCK_RAW) == DENY | EACCES  # the kernel makes a datagram of it
    assert asked(uring) == DENY | ENOSYS
    assert asked(0x40000000 | make, unix, stream) == DENY | EPERM
    assert verdict(program, 0x40000003, 102) == DENY | EPERM  # i386
    assert asked(0) == ALLOW


def test_other_machines_have_no_filter() -> None:
    assert not can_filter("riscv64")
