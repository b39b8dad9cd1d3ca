"""The seccomp program, run by a small interpreter, for machines that this test does not run on too."""

import errno
import socket
import struct

import pytest

from openclaw.mcp_client.sandbox.system_calls import (
    ALLOW,
    AND,
    ANY_BIT,
    AT_LEAST,
    DENY,
    EQUAL,
    LOAD,
    MACHINES,
    RETURN,
    can_filter,
    system_call_filter,
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
            assert code in (EQUAL, AT_LEAST, ANY_BIT)
            holds = {
                EQUAL: value == constant,
                AT_LEAST: value >= constant,
                ANY_BIT: bool(value & constant),
            }[code]
            at += then if holds else otherwise


@pytest.mark.parametrize("machine", list(MACHINES))
@pytest.mark.parametrize("unix_sockets", [True, False])
def test_what_no_confined_program_may_call_is_refused(machine: str, unix_sockets: bool) -> None:
    numbers = MACHINES[machine]
    program = system_call_filter(machine, unix_sockets=unix_sockets)
    unix, stream, datagram = socket.AF_UNIX, socket.SOCK_STREAM, socket.SOCK_DGRAM
    flags = 0o2004000  # SOCK_CLOEXEC | SOCK_NONBLOCK
    of_unix = ALLOW if unix_sockets else DENY | errno.EACCES

    def asked(call: int, first: int = 0, second: int = 0) -> int:
        return verdict(program, numbers.machine, call, first, second)

    assert asked(numbers.socket, unix, stream) == of_unix
    assert asked(numbers.socket, unix | 1 << 32, stream) == of_unix  # the kernel reads 32 bits
    assert asked(numbers.socketpair, unix, stream | flags) == ALLOW
    assert asked(numbers.socketpair, unix, socket.SOCK_SEQPACKET) == ALLOW
    assert asked(numbers.socketpair, unix, datagram | flags) == of_unix
    assert asked(numbers.socketpair, unix, socket.SOCK_RAW) == of_unix  # becomes a datagram
    assert asked(numbers.socket, socket.AF_INET, stream) == ALLOW
    assert asked(numbers.socket, 16, socket.SOCK_RAW) == ALLOW  # netlink
    for family in (17, 38, 40):  # packets, the kernel's cryptography, vsock
        assert asked(numbers.socket, family, stream) == DENY | errno.EAFNOSUPPORT
    assert {asked(number) for number in numbers.denied} == {DENY | errno.EPERM}
    assert {asked(number) for number in numbers.missing} == {DENY | errno.ENOSYS}
    for create in (numbers.clone, numbers.unshare):
        assert asked(create, 0x10000000) == DENY | errno.EPERM
        assert asked(create, 0x003D0F00) == ALLOW  # a thread
    assert asked(numbers.ioctl, 0, 0x5412) == DENY | errno.EPERM
    assert asked(numbers.ioctl, 0, 0x5412 | 1 << 32) == DENY | errno.EPERM
    assert asked(numbers.ioctl, 0, 0x5401) == ALLOW
    assert asked(0x40000000 | numbers.socket, unix, stream) == DENY | errno.EPERM
    assert verdict(program, 0x40000003, 102) == DENY | errno.EPERM  # i386
    assert asked(0) == ALLOW


def test_other_machines_have_no_filter() -> None:
    assert not can_filter("riscv64")
