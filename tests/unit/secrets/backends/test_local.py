"""Environment, files and commands."""

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import psutil
import pytest
from tests.support.loop_time import pass_time_after

from openclaw.core.errors import SecretUnavailable
from openclaw.secrets.resolver import SecretResolver

Opener = Callable[..., SecretResolver]
Maker = Callable[[str, str], Path]


async def value_of(resolver: SecretResolver, text: str) -> str:
    return (await resolver.resolve_text(text)).reveal()


async def reason_of(resolver: SecretResolver, text: str) -> str:
    with pytest.raises(SecretUnavailable) as caught:
        await resolver.resolve_text(text)
    return caught.value.reason


@pytest.mark.requirement("FR-5.5")
async def test_a_variable_of_the_environment_that_was_handed_in(open_resolver: Opener) -> None:
    assert await value_of(open_resolver({}, {"TOKEN": "abc"}), "secret://env/TOKEN") == "abc"


async def test_a_missing_or_empty_variable_is_named(open_resolver: Opener) -> None:
    resolver = open_resolver({}, {"EMPTY": ""})
    assert await reason_of(resolver, "secret://env/NOPE") == (
        "the environment variable NOPE is not set"
    )
    assert await reason_of(resolver, "secret://env/EMPTY") == (
        "the environment variable EMPTY is empty"
    )


async def test_text_glued_to_a_variable_is_pointed_out(open_resolver: Opener) -> None:
    with pytest.raises(SecretUnavailable) as caught:
        await open_resolver({}, {"PW": "x"}).resolve_text("pg://me:secret://env/PW@host")
    assert caught.value.hint == "if more text follows a reference, write <secret://env/VAR>"


async def test_a_file_without_its_last_newline(open_resolver: Opener, tmp_path: Path) -> None:
    (tmp_path / "unix").write_text("line one\nline two\n")
    (tmp_path / "dos").write_bytes(b"value\r\n")
    (tmp_path / "bom").write_bytes(b"\xef\xbb\xbfvalue")
    resolver = open_resolver()
    assert await value_of(resolver, f"secret://file{tmp_path}/unix") == "line one\nline two"
    assert await value_of(resolver, f"secret://file/{tmp_path}/dos") == "value"
    assert await value_of(resolver, f"secret://file{tmp_path}/bom") == "value"


async def test_paths_in_the_home_and_in_the_configured_directory(
    open_resolver: Opener, home: Path, tmp_path: Path
) -> None:
    (home / "token").write_text("from home")
    (home / ".openclaw").mkdir()
    (home / ".openclaw" / "token").write_text("from state")
    (tmp_path / "token").write_text("from directory")
    assert await value_of(open_resolver(), "secret://file/~/token") == "from home"
    assert await value_of(open_resolver(), "secret://file/./token") == "from state"
    moved = open_resolver({"file": {"directory": str(tmp_path)}})
    assert await value_of(moved, "secret://file/./token") == "from directory"
    elsewhere = open_resolver({}, {"OPENCLAW_STATE_DIR": str(tmp_path)})
    assert await value_of(elsewhere, "secret://file/./token") == "from directory"


async def test_a_field_of_a_json_file(open_resolver: Opener, tmp_path: Path) -> None:
    (tmp_path / "k.json").write_text(
        '{"a": {"b": ["x", {"c": "deep"}]}, "d.e": "dotted", "n": 5, "t": {"u": true}}'
    )
    resolver, base = open_resolver(), f"secret://file{tmp_path}/k.json"
    assert await value_of(resolver, f"{base}#a.b.1.c") == "deep"
    assert await value_of(resolver, f"{base}#d.e") == "dotted"
    assert await value_of(resolver, f"{base}#n") == "5"
    assert await value_of(resolver, f"{base}#t") == '{"u":true}'
    for missing in ("a.x", "a.b.7", "a.b.x", "a.b.0.z", "zz"):
        assert "has no field" in await reason_of(resolver, f"{base}#{missing}")


async def test_what_is_wrong_with_a_file_is_said_without_its_content(
    open_resolver: Opener, tmp_path: Path
) -> None:
    (tmp_path / "plain").write_text("not-json-but-secret")
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00secret")
    (tmp_path / "large").write_bytes(b"x" * (1024 * 1024 + 1))
    (tmp_path / "empty").write_text("\n")
    os.mkfifo(tmp_path / "pipe")
    resolver = open_resolver()
    expected = {
        "missing": "No such file or directory",
        "plain#field": "is not JSON",
        "binary": "is not UTF-8 text",
        "large": "is larger than 1048576 bytes",
        "empty": "is empty",
        "pipe": "is not a regular file",
        ".": "is not a regular file",
    }
    for name, words in expected.items():
        reason = await reason_of(resolver, f"secret://file{tmp_path}/{name}")
        assert words in reason
        assert "secret" not in reason
    assert "another user" in await reason_of(resolver, "secret://file/~root/x")


async def test_a_configured_command_gives_its_output(
    open_resolver: Opener, make_program: Maker
) -> None:
    directory = make_program("pass", 'echo "value of $1 for $WHO in $LEAK"')
    options = {
        "exec": {
            "github": {
                "command": "pass",
                "args": ["show; echo $HOME"],
                "env": {"WHO": "secret://env/WHO_IS_IT"},
            }
        }
    }
    environ = {"PATH": f"{directory}:/bin", "LEAK": "no", "WHO_IS_IT": "me"}
    resolver = open_resolver(options, environ)
    # No shell takes the argument apart, and the rest of our environment does not reach it.
    assert (
        await value_of(resolver, "secret://exec/github") == "value of show; echo $HOME for me in "
    )


async def test_failures_of_a_command_never_repeat_its_words(
    open_resolver: Opener, make_program: Maker
) -> None:
    directory = make_program("bad", "echo my-secret-value; echo my-secret-value >&2; exit 3")
    make_program("quiet", "exit 0")
    make_program("binary", "printf '\\377\\376'")
    make_program("flood", "yes my-secret-value")
    commands: dict[str, Any] = {
        name: {"command": name} for name in ("bad", "quiet", "binary", "flood", "missing")
    }
    commands["nested"] = {"command": "quiet", "env": {"A": "secret://env/NOPE"}}
    commands["slow"] = {"command": "sleep", "args": ["60"], "timeoutMs": 50}
    resolver = open_resolver({"exec": commands}, {"PATH": f"{directory}:/usr/bin:/bin"})
    expected = {
        "bad": "failed with exit code 3",
        "quiet": "printed nothing",
        "binary": "is not UTF-8 text",
        "flood": "printed more than 1048576 bytes",
        "missing": "the program missing was not found",
        "nested": "secret://env/NOPE: the environment variable NOPE is not set",
        "slow": "took longer than 50 ms",
        "unknown": "no command 'unknown' is configured",
    }
    for name, words in expected.items():
        reason = await reason_of(resolver, f"secret://exec/{name}")
        assert words in reason
        assert "my-secret-value" not in reason


async def test_a_command_that_hangs_is_killed_with_its_children(
    open_resolver: Opener, make_program: Maker, tmp_path: Path
) -> None:
    note = tmp_path / "child"
    directory = make_program(
        "hang", f"sleep 300 & echo $! > {note}.new; mv {note}.new {note}; wait"
    )
    resolver = open_resolver(
        {"timeoutMs": 60_000, "exec": {"hang": {"command": "hang"}}},
        {"PATH": f"{directory}:/usr/bin:/bin"},
    )
    async with anyio.create_task_group() as group:
        group.start_soon(pass_time_after, note.exists, 60)
        assert await reason_of(resolver, "secret://exec/hang") == "no answer within 60 s"
    child = int(note.read_text())
    deadline = time.monotonic() + 60
    while psutil.pid_exists(child) and psutil.Process(child).status() != psutil.STATUS_ZOMBIE:
        assert time.monotonic() < deadline
        await anyio.sleep(0.01)


async def test_1password_is_asked_through_its_command(
    open_resolver: Opener, make_program: Maker
) -> None:
    directory = make_program("op", 'printf %s "$*"')
    environ = {"PATH": f"{directory}:/bin"}
    resolver = open_resolver({"op": {"account": "me", "vault": "Work"}}, environ)
    assert await value_of(resolver, "secret://op/Private/Git%20Hub/token") == (
        "read --no-newline --account me op://Private/Git Hub/token"
    )
    assert (await value_of(resolver, "secret://op/GitHub/token")).endswith("op://Work/GitHub/token")
    assert "write secret://op/VAULT/ITEM/FIELD" in await reason_of(
        open_resolver({}, environ), "secret://op/GitHub/token"
    )


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ('[ERROR] \\"x\\" isn\'t an item in the vault', "there is no such item"),
        ("[ERROR] you are not currently signed in", "nobody is signed in to 1Password"),
        ("[ERROR] something with my-secret-value", "op failed with exit code 1"),
    ],
)
async def test_what_1password_refuses_is_said_in_our_words(
    open_resolver: Opener, make_program: Maker, said: str, reason: str
) -> None:
    directory = make_program("op", f'echo "{said}" >&2; exit 1')
    resolver = open_resolver({}, {"PATH": f"{directory}:/bin"})
    assert await reason_of(resolver, "secret://op/V/I/F") == reason


async def test_without_the_1password_command_it_is_named(
    open_resolver: Opener, make_program: Maker, tmp_path: Path
) -> None:
    resolver = open_resolver({}, {"PATH": str(tmp_path)})
    assert "'op' is not installed" in await reason_of(resolver, "secret://op/V/I/F")
    silent = make_program("op", "exit 0")
    assert "is empty" in await reason_of(
        open_resolver({}, {"PATH": f"{silent}:/bin"}), "secret://op/V/I/F"
    )
