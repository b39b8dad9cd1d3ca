"""Confined servers that try to get at sockets, the local network and what lies beside them."""

import asyncio
import ctypes
import json
import os
import platform
import socket
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.mcp_client.sandbox.internet_proxy import Proxy
from openclaw.mcp_client.sandbox.support import SandboxSupport, detect_support
from openclaw.mcp_client.sandbox.system_calls import MACHINES
from openclaw.mcp_client.transport.child_process import Program, SpawnFailed, popen

pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]

HERE = detect_support(os.environ["PATH"])
LANDLOCK = SandboxSupport(None, "bubblewrap is left out", HERE.landlock)
needs_bubblewrap = pytest.mark.skipif(HERE.bubblewrap is None, reason=HERE.why_no_bubblewrap)
needs_landlock = pytest.mark.skipif(not HERE.landlock, reason="the kernel has no Landlock")
both = pytest.mark.parametrize(
    "means",
    [
        pytest.param(HERE, marks=needs_bubblewrap, id="bubblewrap"),
        pytest.param(LANDLOCK, marks=needs_landlock, id="landlock"),
    ],
)

ATTACKER = """
import ctypes, json, os, socket, sys
asked = json.loads(sys.argv[1])
def tried(attempt):
    try: return attempt() or "reached"
    except OSError as error: return f"refused: {error.strerror}"
def by_path(path, kind=socket.SOCK_STREAM):
    with socket.socket(socket.AF_UNIX, kind) as one: one.connect(path)
def by_pair(path):
    one, other = socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM)
    one.sendto(b"hello", path)
def talking_to_itself():
    one, other = socket.socketpair()
    one.send(b"x"); return other.recv(1).decode()
def by_tcp(port):
    socket.create_connection(("127.0.0.1", port), 5).close()
def by_proxy(target):
    host, port = os.environ["HTTPS_PROXY"].removeprefix("http://").split(":")
    with socket.create_connection((host, int(port)), 5) as one:
        one.sendall(f"CONNECT {target} HTTP/1.1\\r\\n\\r\\n".encode())
        return one.makefile().readline().strip()
def io_uring():
    if ctypes.CDLL(None, use_errno=True).syscall(425, 1, ctypes.create_string_buffer(120)) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def of_the_keyring(name):
    numbers = {"x86_64": (250, 249, 248), "aarch64": (219, 218, 217)}[os.uname().machine]
    keyctl, request_key, add_key = numbers
    call = ctypes.CDLL(None, use_errno=True).syscall
    found = []
    for attempt in (
        (add_key, b"user", b"mine", b"x", 1, -3),
        (request_key, b"user", name.encode(), None, 0),
        (keyctl, 10, -3, b"user", name.encode(), 0),
        (keyctl, 10, -4, b"user", name.encode(), 0),
    ):
        key = call(*attempt)
        found.append(key if key >= 0 else os.strerror(ctypes.get_errno()))
    return found + [tried(lambda: str(name in open("/proc/keys").read()))]
def call(number, *arguments):
    if ctypes.CDLL(None, use_errno=True).syscall(number, *arguments) < 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
def to_the_host_of_this_machine():
    socket.socket(40, socket.SOCK_STREAM).close()
print(json.dumps({
    "vsock": tried(to_the_host_of_this_machine),
    "stream": [tried(lambda: by_path(p)) for p in asked.get("stream", [])],
    "datagram": [tried(lambda: by_path(p, socket.SOCK_DGRAM)) for p in asked.get("datagram", [])],
    "pair": [tried(lambda: by_pair(p)) for p in asked.get("datagram", [])],
    "own": tried(talking_to_itself),
    "uring": tried(io_uring),
    "keys": [tried(lambda: of_the_keyring(name)) for name in asked.get("keys", [])],
    "calls": [tried(lambda: call(*one)) for one in asked.get("calls", [])],
    "tcp": [tried(lambda: by_tcp(p)) for p in asked.get("tcp", [])],
    "proxy": [tried(lambda: by_proxy(t)) for t in asked.get("proxy", [])],
    "read": [tried(lambda: open(p).read()) for p in asked.get("read", [])],
    "write": [tried(lambda: open(p, "w").close()) for p in asked.get("write", [])],
}))
"""


def refused(tries: Sequence[str]) -> bool:
    return all(one.startswith("refused") for one in tries)


class Attacker:
    """A server that is told what to try and says how it went."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.state = home / ".openclaw"
        self.state.mkdir()
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(home)}

    def __call__(
        self,
        means: SandboxSupport,
        sandbox: dict[str, Any],
        *,
        command: str = sys.executable,
        first: Sequence[str] = ("-I", "-c", ATTACKER),
        last: Sequence[str] = (),
        roots: Sequence[Path] = (),
        **asked: Any,
    ) -> dict[str, Any]:
        config = McpServerConfig.model_validate(
            {"command": command, "sandbox": {"mode": "strict", **sandbox}}
        )
        program = Program(command, (*first, json.dumps(asked), *last), self.environ)
        inside = Sandbox(self.environ, self.state, means=means)
        with popen(
            inside.confine(config, program, "bad", roots), start_new_session=True
        ) as process:
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
        return json.loads(out)


@pytest.fixture
def attacker(home: Path) -> Attacker:
    return Attacker(home)


class Sockets:
    """What other programs of this user listen on."""

    def __init__(self, root: Path, stack: ExitStack) -> None:
        self.stream, self.datagram = root / "agent.sock", root / "log.sock"
        self.abstract = f"\0openclaw-test-{os.getpid()}"
        agent = stack.enter_context(socket.socket(socket.AF_UNIX))
        agent.bind(str(self.stream))
        log = stack.enter_context(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM))
        log.bind(str(self.datagram))
        bus = stack.enter_context(socket.socket(socket.AF_UNIX))
        bus.bind(self.abstract)
        web = stack.enter_context(socket.create_server(("127.0.0.1", 0)))
        agent.listen()
        bus.listen()
        self.port: int = web.getsockname()[1]


@pytest.fixture
def sockets(tmp_path: Path) -> Iterator[Sockets]:
    with ExitStack() as stack:
        yield Sockets(tmp_path, stack)


def test_without_a_sandbox_all_of_it_is_reached(attacker: Attacker, sockets: Sockets) -> None:
    found = attacker(
        HERE,
        {"mode": "off"},
        stream=[str(sockets.stream), sockets.abstract],
        datagram=[str(sockets.datagram)],
        tcp=[sockets.port],
    )
    assert {*found["stream"], *found["datagram"], *found["pair"], *found["tcp"]} == {"reached"}


@both
def test_no_unix_socket_is_reached_by_its_path(
    attacker: Attacker, sockets: Sockets, means: SandboxSupport
) -> None:
    found = attacker(means, {}, stream=[str(sockets.stream)], datagram=[str(sockets.datagram)])
    tries = [*found["stream"], *found["datagram"], *found["pair"]]
    assert all(one.startswith("refused") for one in tries), tries
    assert found["own"] == "x"


@needs_landlock
def test_landlock_leaves_no_unix_socket_even_where_its_directory_is_open(
    attacker: Attacker, sockets: Sockets
) -> None:
    named = {"write": [str(sockets.stream.parent)]}
    found = attacker(
        LANDLOCK,
        named,
        stream=[str(sockets.stream), sockets.abstract],
        datagram=[str(sockets.datagram)],
    )
    tries = [*found["stream"], *found["datagram"], *found["pair"], found["uring"]]
    assert all(one.startswith("refused") for one in tries), tries
    assert found["own"] == "x"


@needs_landlock
def test_strict_is_refused_where_sockets_cannot_be_taken_away(attacker: Attacker) -> None:
    with pytest.raises(SpawnFailed, match="every Unix socket can be reached"):
        attacker(SandboxSupport(None, "left out", HERE.landlock, sockets=False), {})


@needs_bubblewrap
def test_the_internet_is_neither_this_machine_nor_its_network(
    attacker: Attacker, sockets: Sockets
) -> None:
    targets = [
        f"127.0.0.1:{sockets.port}",
        f"localhost:{sockets.port}",
        f"[::1]:{sockets.port}",
        "169.254.169.254:80",
        "10.0.0.1:443",
        "192.168.1.1:80",
        f"{socket.gethostname()}:{sockets.port}",
    ]
    found = attacker(
        HERE,
        {"network": "internet"},
        stream=[sockets.abstract],
        tcp=[sockets.port],
        proxy=targets,
    )
    assert all(one.startswith("refused") for one in [*found["stream"], *found["tcp"]])
    assert [one for one in found["proxy"] if not one.startswith("HTTP/1.1 403")] == []


@needs_landlock
def test_the_internet_alone_is_refused_where_it_cannot_be_had(attacker: Attacker) -> None:
    with pytest.raises(SpawnFailed, match="needs bubblewrap"):
        attacker(LANDLOCK, {"network": "internet"})


async def test_the_proxy_connects_to_the_address_that_it_checked() -> None:
    answered = threading.Event()

    async def greet(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"hello " + await reader.readline())
        await writer.drain()
        writer.close()
        answered.set()

    asked: list[str] = []

    async def resolve(host: str, port: int) -> Sequence[str]:
        asked.append(host)
        return ["127.0.0.1"]

    def blocked(address: str) -> str | None:
        return None if address == "127.0.0.1" else "private"

    proxy = Proxy(resolve, blocked)
    async with (
        await asyncio.start_server(greet, "127.0.0.1", 0) as public,
        await asyncio.start_server(proxy.serve, "127.0.0.1", 0) as server,
    ):
        port = public.sockets[0].getsockname()[1]
        here = server.sockets[0].getsockname()[1]
        reader, writer = await asyncio.open_connection("127.0.0.1", here)
        writer.write(f"CONNECT public.test:{port} HTTP/1.1\r\n\r\nyou\n".encode())
        assert await reader.readline() == b"HTTP/1.1 200 Connection established\r\n"
        await reader.readline()
        assert await reader.read() == b"hello you\n"
        writer.close()
        reader, writer = await asyncio.open_connection("127.0.0.1", here)
        head = f"GET http://public.test:{port}/a HTTP/1.1\r\nProxy-Authorization: x\r\n\r\n"
        writer.write(head.encode())
        assert await reader.read() == b"hello GET /a HTTP/1.1\r\n"
        writer.close()
    assert asked == ["public.test", "public.test"]
    assert answered.is_set()


@both
@pytest.mark.parametrize("place", [".cargo", "go", ".bun"])
def test_credentials_beside_the_program_are_not_seen(
    attacker: Attacker, home: Path, means: SandboxSupport, place: str
) -> None:
    programs = home / place / "bin"
    programs.mkdir(parents=True)
    secret, other = home / place / "credentials.toml", programs / "other"
    secret.write_text("token")
    other.write_text("another program")
    server = programs / "server"
    server.write_text(f"#!{sys.executable}\n{ATTACKER}")
    server.chmod(0o755)
    found = attacker(
        means, {}, command=str(server), first=(), read=[str(secret), str(other), str(server)]
    )
    assert found["read"][0].startswith("refused")
    assert found["read"][1].startswith("refused")
    assert "credentials" not in found["read"][2][:10]
    assert not found["read"][2].startswith("refused")


@both
def test_an_added_server_writes_the_workspace_and_what_its_arguments_name(
    attacker: Attacker, home: Path, means: SandboxSupport
) -> None:
    work, data, private = home / "work", home / "data", home / ".ssh"
    for directory in (work, data, private):
        directory.mkdir()
    (private / "id_rsa").write_text("a key")
    (data / "a.db").write_text("")
    (home / "notes.txt").write_text("a note")
    found = attacker(
        means,
        {"mode": "auto"},
        last=[str(data / "a.db"), f"--notes={home / 'notes.txt'}"],
        roots=[work],
        read=[str(private / "id_rsa"), str(home / "notes.txt")],
        write=[str(work / "x"), str(data / "a.db-journal"), str(private / "x"), "/etc/x"],
    )
    assert found["read"][0].startswith("refused")
    assert found["read"][1] == "a note"
    assert found["write"][:2] == ["reached", "reached"]
    assert found["write"][3].startswith("refused")
    assert not (private / "x").exists()
    assert (work / "x").exists()


@both
def test_two_servers_have_two_homes_and_each_keeps_its_own(
    attacker: Attacker, home: Path, means: SandboxSupport
) -> None:
    script = (
        "import json, os, pathlib; p = pathlib.Path(os.environ['HOME'], '.npm', 'kept');"
        "before = p.exists(); p.parent.mkdir(exist_ok=True); p.write_text('x');"
        "print(json.dumps({'before': before}))"
    )
    config = McpServerConfig.model_validate({"command": sys.executable, "sandbox": "auto"})
    program = Program(sys.executable, ("-I", "-c", script), attacker.environ)
    sandbox = Sandbox(attacker.environ, attacker.state, means=means)
    seen: list[bool] = []
    for name in ("one", "two", "one"):
        with popen(sandbox.confine(config, program, name), start_new_session=True) as process:
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
        seen.append(json.loads(out)["before"])
    assert seen == [False, False, True]
    assert not (home / ".npm").exists()


@needs_bubblewrap
@pytest.mark.parametrize("network", [False, "internet"])
def test_no_socket_leads_around_the_network_that_was_taken_away(
    attacker: Attacker, network: bool | str
) -> None:
    assert attacker(HERE, {"network": network})["vsock"].startswith("refused")


@both
def test_no_setting_of_the_kernel_is_changed(attacker: Attacker, means: SandboxSupport) -> None:
    settings = ["/proc/sys/kernel/core_pattern", "/proc/sys/vm/swappiness"]
    found = attacker(means, {"network": True}, write=settings)
    assert all(one.startswith("refused") for one in found["write"])


@both
def test_a_workspace_that_is_the_home_directory_is_not_opened(
    attacker: Attacker, means: SandboxSupport
) -> None:
    token, key = attacker.state / "gateway.token", attacker.home / ".ssh" / "id"
    key.parent.mkdir()
    for file in (token, key):
        file.write_text("secret")
    wanted = [str(token), str(key)]
    found = attacker(
        means,
        {"mode": "auto", "network": True},
        roots=[attacker.home],
        read=wanted,
        write=[str(attacker.home / ".bashrc")],
    )
    assert all(one.startswith("refused") for one in found["read"])
    assert not (attacker.home / ".bashrc").exists()


@needs_bubblewrap
def test_a_home_directory_that_is_opened_as_the_workspace_does_not_show_our_state(
    attacker: Attacker,
) -> None:
    token, note = attacker.state / "gateway.token", attacker.home / "note"
    for file in (token, note):
        file.write_text("x")
    sandbox = {"mode": "auto", "workspace": True, "network": True}
    found = attacker(HERE, sandbox, roots=[attacker.home], read=[str(token), str(note)])
    assert found["read"][0].startswith("refused")
    assert found["read"][1] == "x"


NUMBERS = {"x86_64": (250, 248), "aarch64": (219, 217)}.get(platform.machine())
USERS_KEYRING = -4


@pytest.fixture
def key() -> Iterator[str]:
    """The name of a key in this user's keyring, as other programs store tickets and passwords."""
    if NUMBERS is None:
        pytest.skip("system calls of this machine are not known")
    call, name = ctypes.CDLL(None, use_errno=True).syscall, f"openclaw-test-{os.getpid()}"
    keyctl, add_key = NUMBERS
    found = call(add_key, b"user", name.encode(), b"4711", 4, USERS_KEYRING)
    if found < 0:
        pytest.skip(f"no keyring here: {os.strerror(ctypes.get_errno())}")
    yield name
    call(keyctl, 9, found, USERS_KEYRING)  # unlink


@both
def test_no_key_of_the_kernel_is_read_or_made(
    attacker: Attacker, means: SandboxSupport, key: str
) -> None:
    [found] = attacker(means, {"network": True}, keys=[key])["keys"]
    assert found[:4] == ["Operation not permitted"] * 4
    if means.bubblewrap:
        assert found[4] != "True"  # Landlock hides no names


@both
def test_no_namespace_no_mount_and_no_input_of_a_terminal_is_made(
    attacker: Attacker, means: SandboxSupport
) -> None:
    numbers = MACHINES[platform.machine()]
    new_user = 0x10000000
    calls = [
        [numbers.unshare, new_user],
        [numbers.clone, new_user | 17, 0, 0, 0, 0],
        [numbers.ioctl, 0, 0x5412, 0],
        *([number, 0, 0, 0, 0, 0] for number in (*numbers.denied, *numbers.missing)),
    ]
    tries = attacker(means, {"network": True}, calls=calls)["calls"]
    denied = ["refused: Operation not permitted"] * (3 + len(numbers.denied))
    assert tries == denied + ["refused: Function not implemented"] * len(numbers.missing)


@both
def test_no_secret_of_the_system_is_read(attacker: Attacker, means: SandboxSupport) -> None:
    secrets = ["/etc/shadow", "/etc/gshadow", "/etc/passwd-", "/etc/sudoers", "/etc/environment"]
    there = [path for path in secrets if Path(path).exists()]
    usual = [path for path in ("/etc/passwd", "/etc/debian_version") if Path(path).exists()]
    found = attacker(means, {}, read=[*there, *usual])["read"]
    assert refused(found[: len(there)])
    assert not any(one.startswith("refused") for one in found[len(there) :])
