"""Servers in a sandbox, as real processes that try to get out of it."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.support.connection_bench import Bench, until

import openclaw
from openclaw.config.agent_schema import McpServerConfig
from openclaw.mcp_client.lifecycle.server_state import ServerState
from openclaw.mcp_client.sandbox.confinement import Sandbox
from openclaw.mcp_client.sandbox.support import SandboxSupport, detect_support
from openclaw.mcp_client.transport.child_process import Program, SpawnFailed, popen

pytestmark = [
    pytest.mark.subprocess,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap and Landlock are Linux's"),
]

HERE = detect_support(os.environ["PATH"])
LANDLOCK = SandboxSupport(None, "bubblewrap is left out", HERE.landlock)
NOTHING = SandboxSupport(None, "bubblewrap is not installed", 0)
SOURCES = str(Path(openclaw.__file__).parents[1])

needs_bubblewrap = pytest.mark.skipif(HERE.bubblewrap is None, reason=HERE.why_no_bubblewrap)
needs_landlock = pytest.mark.skipif(not HERE.landlock, reason="the kernel has no Landlock")
both = pytest.mark.parametrize(
    "means",
    [
        pytest.param(HERE, marks=needs_bubblewrap, id="bubblewrap"),
        pytest.param(LANDLOCK, marks=needs_landlock, id="landlock"),
    ],
)

PROBE = """
import json, os, socket, sys
def tried(attempt):
    try: return attempt()
    except OSError as error: return f"refused: {error.strerror}"
def connect(port):
    socket.create_connection(("127.0.0.1", port), 5).close()
    return "connected"
asked = json.loads(sys.argv[1])
print(json.dumps({
    "read": [tried(lambda: open(p).read()) for p in asked.get("read", [])],
    "write": [tried(lambda: open(p, "w").write("x")) for p in asked.get("write", [])],
    "connect": [tried(lambda: connect(p)) for p in asked.get("connect", [])],
    "environ": dict(os.environ),
    "directory": os.getcwd(),
}))
"""


class Confined:
    """Runs the probe in a sandbox and tells what it could do."""

    def __init__(self, home: Path, state: Path) -> None:
        self.environ = {"PATH": os.environ["PATH"], "HOME": str(home), "HOST_SECRET": "not yours"}
        self.state = state

    def __call__(
        self,
        means: SandboxSupport,
        sandbox: dict[str, Any],
        env: dict[str, str] | None = None,
        cwd: Path | None = None,
        **asked: Any,
    ) -> dict[str, Any]:
        config = McpServerConfig.model_validate(
            {"command": sys.executable, "sandbox": {"mode": "strict", **sandbox}}
        )
        program = Program(
            sys.executable,
            ("-I", "-c", PROBE, json.dumps(asked)),
            {"PATH": os.environ["PATH"], "HOME": self.environ["HOME"], **(env or {})},
            cwd,
        )
        confined = Sandbox(self.environ, self.state, means=means).confine(config, program)
        with popen(confined, start_new_session=True) as process:
            out, err = process.communicate(timeout=60)
        assert process.returncode == 0, err.decode()
        return json.loads(out)


@pytest.fixture
def confined(home: Path) -> Confined:
    state = home / ".openclaw"
    state.mkdir()
    (state / "tokens").write_text("a token")
    (home / "private.txt").write_text("a diary")
    return Confined(home, state)


@both
def test_nothing_of_the_home_directory_can_be_read_unless_it_is_named(
    confined: Confined, home: Path, tmp_path: Path, means: SandboxSupport
) -> None:
    named = tmp_path / "named"
    named.mkdir()
    (named / "a.txt").write_text("a")
    paths = [str(home / "private.txt"), "/etc/shadow", str(named / "a.txt")]
    found = confined(means, {"read": [str(named)]}, read=paths)["read"]
    assert found[0].startswith("refused")
    assert found[1].startswith("refused")
    assert found[2] == "a"


@pytest.mark.requirement("US-5.1")
@both
def test_only_what_is_named_can_be_written(
    confined: Confined, tmp_path: Path, means: SandboxSupport
) -> None:
    readable, writable = tmp_path / "readable", tmp_path / "writable"
    readable.mkdir()
    writable.mkdir()
    found = confined(
        means,
        {"read": [str(readable)], "write": [str(writable)]},
        write=[str(readable / "x"), str(writable / "x"), "/usr/x", "/etc/x"],
    )["write"]
    assert [str(one).startswith("refused") for one in found] == [True, False, True, True]
    assert (writable / "x").read_text() == "x"
    assert not (readable / "x").exists()


@both
def test_the_hosts_environment_cannot_be_read_by_any_way(
    confined: Confined, means: SandboxSupport
) -> None:
    parents = [f"/proc/{pid}/environ" for pid in (1, os.getpid(), os.getppid())]
    found = confined(means, {}, env={"OWN": "mine"}, read=[*parents, "/proc/self/environ"])
    everything = json.dumps(found)
    assert found["environ"]["OWN"] == "mine"
    assert "HOST_SECRET" not in everything
    assert "PYTEST_CURRENT_TEST" not in everything  # which is in our own


@needs_bubblewrap
def test_its_variables_are_not_seen_in_the_list_of_processes(confined: Confined) -> None:
    config = McpServerConfig.model_validate({"command": "cat", "sandbox": "strict"})
    program = Program("cat", (), {"PATH": os.environ["PATH"], "API_KEY": "sesame"})
    inside = Sandbox(confined.environ, confined.state, means=HERE).confine(config, program)
    with popen(inside, start_new_session=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(b"up\n")
        assert process.stdout.readline() == b"up\n"
        shown = subprocess.run(["ps", "axww"], capture_output=True, text=True, check=True).stdout
        own = Path(f"/proc/{process.pid}/environ").read_text()
        process.stdin.close()
    assert str(process.pid) in shown
    assert "sesame" not in shown
    assert "sesame" not in own


@needs_bubblewrap
def test_without_the_network_not_even_loopback_can_be_reached(confined: Confined) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        assert confined(HERE, {}, connect=[port])["connect"] == ["connected"]
        [refused] = confined(HERE, {"network": False}, connect=[port])["connect"]
    assert refused.startswith("refused")


@needs_landlock
def test_landlock_alone_is_not_taken_for_a_network_that_is_off(confined: Confined) -> None:
    with pytest.raises(SpawnFailed, match="is not fully enforced"):
        confined(LANDLOCK, {"network": False})


@needs_landlock
def test_auto_denies_what_landlock_can_deny(
    confined: Confined, caplog: pytest.LogCaptureFixture
) -> None:
    import socket

    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        wanted = {"mode": "auto", "network": False}
        [refused] = confined(LANDLOCK, wanted, connect=[port])["connect"]
    assert refused.startswith("refused")
    assert "is not fully enforced" in caplog.text


@pytest.mark.requirement("NFR-3.1")
def test_strict_starts_nothing_where_nothing_can_confine(confined: Confined) -> None:
    with pytest.raises(SpawnFailed, match="no sandbox is available here") as failure:
        confined(NOTHING, {})
    assert "bubblewrap" in (failure.value.hint or "")


def test_auto_starts_without_a_sandbox_and_says_so(
    confined: Confined, home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    found = confined(NOTHING, {"mode": "auto"}, read=[str(home / "private.txt")])
    assert found["read"] == ["a diary"]
    assert "runs without a sandbox" in caplog.text


@both
def test_a_path_that_is_not_there_is_an_error_with_its_name(
    confined: Confined, means: SandboxSupport
) -> None:
    with pytest.raises(SpawnFailed, match=r"sandbox\.write: .*nowhere does not exist"):
        confined(means, {"write": ["/nowhere"]})


@both
def test_the_working_directory_can_be_read(
    confined: Confined, tmp_path: Path, means: SandboxSupport
) -> None:
    work = tmp_path / "work"
    work.mkdir()
    (work / "a.txt").write_text("a")
    found = confined(means, {}, cwd=work, read=["a.txt"], write=["a.txt"])
    assert found["directory"] == str(work)
    assert found["read"] == ["a"]
    assert str(found["write"][0]).startswith("refused")


@needs_bubblewrap
def test_our_own_state_stays_hidden_even_where_the_home_directory_is_named(
    confined: Confined, home: Path
) -> None:
    paths = [str(home / "private.txt"), str(home / ".openclaw" / "tokens")]
    found = confined(HERE, {"read": [str(home)]}, read=paths)["read"]
    assert found[0] == "a diary"
    assert found[1].startswith("refused")


@both
async def test_an_mcp_server_works_in_its_sandbox_and_is_gone_afterwards(
    bench: Bench, tmp_path: Path, means: SandboxSupport
) -> None:
    sandbox = Sandbox(bench.environ, tmp_path / "state", means=means)
    spec = {"tools": [{"name": "echo"}], "faults": {"ignoreEof": True}}
    settings = {"sandbox": {"mode": "strict", "read": [SOURCES]}}
    connection = bench.connection(spec, deps={"confine": sandbox.confine}, **settings)
    async with bench.run(connection) as server:
        assert await server.call_tool("echo", {"a": 1})
        pid = server.snapshot.pid
        assert pid is not None
    assert not Path(f"/proc/{pid}").exists()
    assert f"pgrp {pid}" not in _groups()


def _groups() -> str:
    found: list[str] = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if fields[0] not in "ZX":
            found.append(f"pgrp {fields[2]}")
    return "\n".join(found)


@both
async def test_a_sandboxed_server_that_crashes_comes_back(
    bench: Bench, tmp_path: Path, means: SandboxSupport
) -> None:
    sandbox = Sandbox(bench.environ, tmp_path / "state", means=means)
    spec = {"tools": [{"name": "echo"}, {"name": "die", "does": {"crash": 3}}]}
    settings = {"sandbox": {"mode": "strict", "read": [SOURCES]}}
    connection = bench.connection(spec, deps={"confine": sandbox.confine}, **settings)
    async with bench.run(connection) as server:
        with pytest.raises(Exception, match="code 3"):
            await server.call_tool("die", {})
        bench.clock.ahead += 5
        await until(lambda: server.snapshot.state is ServerState.READY)
        assert await server.call_tool("echo", {"a": 1})


LIMITS = """
import json, resource, sys
print(json.dumps([resource.getrlimit(getattr(resource, name))[0] for name in sys.argv[1:]]))
"""


@pytest.mark.parametrize("mode", ["off", pytest.param("strict", marks=needs_bubblewrap)])
def test_limits_hold_before_the_program_runs(confined: Confined, mode: str) -> None:
    config = McpServerConfig.model_validate(
        {
            "command": sys.executable,
            "sandbox": mode,
            "limits": {"memoryMb": 3000, "openFiles": 77, "cpuSeconds": 9, "processes": 40},
        }
    )
    names = ("RLIMIT_AS", "RLIMIT_NOFILE", "RLIMIT_CPU", "RLIMIT_NPROC")
    program = Program(sys.executable, ("-I", "-c", LIMITS, *names), {"PATH": os.environ["PATH"]})
    bounded = Sandbox(confined.environ, confined.state).confine(config, program)
    with popen(bounded, start_new_session=True) as process:
        out, _ = process.communicate(timeout=60)
    memory, files, seconds, processes = json.loads(out)
    assert (memory, files, seconds) == (3000 * 1024 * 1024, 77, 9)
    assert 40 <= processes < 100_000


async def test_a_server_that_takes_too_much_memory_fails_and_not_the_machine(
    bench: Bench, tmp_path: Path
) -> None:
    sandbox = Sandbox(bench.environ, tmp_path / "state")
    code = "x = bytearray(2_000_000_000)"
    entry = {
        "command": sys.executable,
        "args": ["-I", "-c", code],
        "limits": {"memoryMb": 500},
        "restartOnCrash": False,
    }
    connection = bench.to(entry, deps={"confine": sandbox.confine})
    async with bench.run(connection, ready=False) as server:
        await until(lambda: server.snapshot.state is ServerState.FAILED)
        assert any("MemoryError" in line for line in server.snapshot.stderr)


def test_a_missing_program_is_named_whatever_is_put_around_it(confined: Confined) -> None:
    config = McpServerConfig.model_validate({"command": "nonesuch", "limits": {"openFiles": 50}})
    with pytest.raises(SpawnFailed, match="command not found: 'nonesuch'"):
        Sandbox(confined.environ, confined.state).confine(config, Program("nonesuch", (), {}))


def test_a_bubblewrap_that_does_not_work_is_found_out(tmp_path: Path) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'setting up uid map: Permission denied' >&2\nexit 1\n")
    fake.chmod(0o755)
    means = detect_support(str(tmp_path))
    assert means.bubblewrap is None
    assert "setting up uid map: Permission denied" in means.why_no_bubblewrap


@both
@pytest.mark.parametrize("first", ["#!{python}", "#!/usr/bin/env -S python-of-this-test -I"])
def test_a_script_is_run_by_the_interpreter_that_its_first_line_names(
    confined: Confined, tmp_path: Path, means: SandboxSupport, first: str
) -> None:
    programs = tmp_path / "elsewhere" / "bin"
    programs.mkdir(parents=True)
    (programs / "python-of-this-test").symlink_to(sys.executable)
    script = programs / "tool"
    script.write_text(f"{first.format(python=sys.executable)}\nprint('ran')\n")
    script.chmod(0o755)
    config = McpServerConfig.model_validate({"command": "tool", "sandbox": "strict"})
    path = f"{programs}:{os.environ['PATH']}"
    program = Program("tool", (), {"PATH": path, "HOME": confined.environ["HOME"]})
    environ = {**confined.environ, "PATH": path}
    inside = Sandbox(environ, confined.state, means=means).confine(config, program)
    with popen(inside, start_new_session=True) as process:
        out, err = process.communicate(timeout=60)
    assert out == b"ran\n", err.decode()
