"""Commands of the person's own on events, in a real process with real commands."""

import json
import sqlite3
import stat
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import anyio
import pytest
from tests.support.agent_kit import FakeTools, agent_kit, scripted_config

from openclaw.agent.port import MessageContext
from openclaw.agent.toolpath.hooks import Hooks
from openclaw.agent.toolpath.toolbox import ToolPathDeps, tool_path
from openclaw.config.load import load_config
from openclaw.config.schema import HookConfig
from openclaw.core.clock import SystemClock
from openclaw.core.content import Text, text_of
from openclaw.core.errors import Busy, InvalidConfig, OpenClawError
from openclaw.core.tools import CallContext, JsonObject, ToolResult
from openclaw.secrets.redactor import Redactor
from openclaw.sessions.lanes import Lane
from openclaw.sessions.records import LaneLost, SessionRef, StoreError
from openclaw.sessions.sqlite.store import open_sqlite_store
from openclaw.sessions.store import SessionStore
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

RULES = [
    Step(
        when="write it",
        role="user",
        calls=(("write", {"path": "a.txt", "content": "k-0123456789"}),),
    ),
    Step(when="refused", role="tool", text="I was refused: {last}"),
]


@pytest.fixture
async def model() -> AsyncIterator[ScriptedModel]:
    async with scripted_model(rules=RULES, default=Step(text="Done.")) as running:
        yield running


def script(path: Path, text: str) -> str:
    path.write_text(f"#!{sys.executable}\n{text}")
    path.chmod(path.stat().st_mode | stat.S_IXUSR)
    return str(path)


def noting(home: Path) -> str:
    log = str(home / "seen.jsonl")
    return script(
        home / "note.py",
        "import json, os, sys\n"
        f"facts = {{**json.load(sys.stdin), 'env': sorted(os.environ)}}\n"
        f"open({log!r}, 'a').write(json.dumps(facts) + chr(10))\n",
    )


async def agent(home: Path, model: ScriptedModel, hooks: Any, text: str) -> str:
    state = home / ".openclaw"
    state.mkdir(mode=0o700, exist_ok=True)
    provider = {"baseUrl": f"{model.url}/v1", "apiKey": "k-0123456789", "models": [{"id": "m"}]}
    config = {"models": {"providers": {"acme": provider}}, "hooks": {"commands": hooks}}
    (state / "openclaw.json").write_text(json.dumps(config))
    (state / "openclaw.json").chmod(0o600)
    project = home / "project"
    project.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "openclaw", "agent", text]
    done: subprocess.CompletedProcess[bytes] = await anyio.run_process(
        command, check=False, cwd=project
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


async def test_every_event_is_told_in_its_order_and_no_secret_with_it(
    home: Path, model: ScriptedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ACME_KEY", "secret-0123456789")
    note = noting(home)
    events = ("session_start", "before_tool", "after_tool", "turn_end")
    await agent(home, model, [{"on": one, "command": [note]} for one in events], "write it")
    seen = [json.loads(line) for line in (home / "seen.jsonl").read_text().splitlines()]
    assert [one["event"] for one in seen] == [*events]
    before, after, end = seen[1:]
    assert before["tool"] == "write"
    assert before["arguments"]["path"] == "a.txt"
    assert before["workspace"] == str(home / "project")
    assert after["isError"] is False
    assert "a.txt" in after["text"]
    assert (end["outcome"], end["text"]) == ("ok", "Done.")
    assert "k-0123456789" not in json.dumps(seen)  # which the redactor knows
    assert all("ACME_KEY" not in one["env"] for one in seen)


async def test_a_hook_refuses_a_call_with_its_reason(home: Path, model: ScriptedModel) -> None:
    deny = script(home / "deny.py", "print('not on a Friday'); raise SystemExit(2)")
    said = await agent(
        home, model, [{"on": "before_tool", "command": [deny], "tools": ["wri*"]}], "write it"
    )
    assert "The person's hook refused this call: not on a Friday" in said
    assert not (home / "project" / "a.txt").exists()


async def test_a_hook_about_other_tools_does_not_run(home: Path, model: ScriptedModel) -> None:
    deny = script(home / "deny.py", "raise SystemExit(2)")
    await agent(
        home, model, [{"on": "before_tool", "command": [deny], "tools": ["mcp_*"]}], "write it"
    )
    assert (home / "project" / "a.txt").exists()


async def test_a_failed_turn_is_told_too(home: Path, model: ScriptedModel) -> None:
    state = home / ".openclaw"
    state.mkdir(mode=0o700)
    note = noting(home)
    config = {
        "models": {
            "providers": {
                "acme": {
                    "baseUrl": "http://127.0.0.1:9/v1",
                    "maxRetries": 0,
                    "models": [{"id": "m"}],
                }
            }
        },
        "hooks": {"commands": [{"on": "turn_end", "command": [note]}]},
    }
    (state / "openclaw.json").write_text(json.dumps(config))
    (state / "openclaw.json").chmod(0o600)
    await anyio.run_process([sys.executable, "-m", "openclaw", "agent", "go"], check=False)
    seen = json.loads((home / "seen.jsonl").read_text())
    assert seen["outcome"] == "error"
    assert "connection failed" in seen["text"]


def hooks(tmp_path: Path, *command: str, **more: Any) -> Hooks:
    hook = HookConfig.model_validate({"on": "before_tool", "command": [*command], **more})
    return Hooks(
        [hook], {"PATH": "/usr/bin:/bin"}, lambda text: text.replace("s3cret", "***"), tmp_path
    )


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        (["/nowhere/at/all"], "it could not be started"),
        (["sh", "-c", "exec sleep 60"], "it did not end within"),
        (["sh", "-c", "sleep 60 & exit 3"], "it exited with code 3"),  # nobody waits for its child
        (["sh", "-c", "echo s3cret; exit 1"], "***"),
        (["sh", "-c", "head -c 9 /dev/zero; exit 1"], "it exited with code 1 and gave no reason"),
        (["sh", "-c", "yes no; exit 1"], "it did not end within"),
        (["sh", "-c", "exec <&-; exit 0"], None),  # it does not read what it is told
        (["sh", "-c", "test -p /dev/stdout"], None),  # what it says fills no disk
        (["sh", "-c", "echo why; head -c 9999999 /dev/zero; exit 1"], "why"),
    ],
)
async def test_a_hook_that_fails_refuses(
    tmp_path: Path, command: list[str], reason: str | None
) -> None:
    slow = 2000 if reason is not None and "within" in reason else 30_000
    told = await hooks(tmp_path, *command, timeoutMs=slow).fire(
        "before_tool", "write", arguments={"content": "x" * 300_000}
    )
    assert (told is None) if reason is None else (reason in (told or ""))


async def test_a_hook_without_room_for_what_it_is_told_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path / "missing"))
    told = await hooks(tmp_path, "true").fire("before_tool", "write")
    assert "it could not be started" in (told or "")


@pytest.mark.skipif(sys.platform != "linux", reason="found by /proc")
async def test_no_child_of_a_hook_outlives_it_in_a_session_of_its_own(tmp_path: Path) -> None:
    note = tmp_path / "pid"
    child = f"setsid sh -c 'echo $$ > {note}.part; mv {note}.part {note}; exec sleep 600' &"
    waits = f"{child} while ! test -e {note}; do sleep 0.05; done"
    assert await hooks(tmp_path, "sh", "-c", waits).fire("before_tool", "write") is None
    status = Path(f"/proc/{int(note.read_text())}/stat")
    with anyio.fail_after(60):
        while status.exists() and status.read_text().rpartition(")")[2].split()[0] not in "ZX":  # noqa: ASYNC110
            await anyio.sleep(0.05)


def test_a_program_that_the_workspace_could_supply_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "openclaw.json"
    path.write_text('{"hooks": {"commands": [{"on": "turn_end", "command": ["./hook"]}]}}')
    with pytest.raises(InvalidConfig) as caught:
        load_config(path, {})
    assert "its absolute path" in str(caught.value.problems)


@dataclass
class Refused:
    """A place in a queue whose turn must not go on here; `yielding` if it goes on elsewhere."""

    yielding: bool
    refusal: OpenClawError | None = field(default_factory=lambda: Busy("not here", retry_after=1.0))

    def lane(self, store: SessionStore, session: SessionRef) -> AbstractAsyncContextManager[Lane]:
        return store.acquire_lane(session)

    async def finish(self, lane: Lane, outcome: str, result: object) -> None:
        """Nothing is kept."""


@pytest.mark.parametrize("yielding", [True, False])
async def test_a_turn_that_goes_on_elsewhere_has_not_ended(tmp_path: Path, yielding: bool) -> None:
    told = tmp_path / "told"
    hook = HookConfig(on="turn_end", command=("sh", "-c", f"cat > {told}"))
    every = Hooks([hook], {"PATH": "/usr/bin:/bin"}, str, tmp_path)
    async with (
        scripted_model(default=Step(text="Hi.")) as server,
        agent_kit(scripted_config(server.url)) as kit,
    ):
        setup = replace(kit.setups["main"], hooks=every)
        context = MessageContext(text="go", session_key="s", claim=Refused(yielding))
        with pytest.raises(Busy):
            await kit.service.reply(context, setup)
    assert told.exists() is not yielding


@pytest.mark.parametrize("calls", [1, 2])
@pytest.mark.parametrize(
    ("damage", "raised"),
    [("DELETE FROM sessions", LaneLost), ("DROP TABLE entries", StoreError)],
)
async def test_a_turn_that_cannot_be_recorded_any_more_goes_on_elsewhere_however_many_tools_it_calls(
    tmp_path: Path, damage: str, raised: type[OpenClawError], calls: int
) -> None:
    told, path, tools = tmp_path / "told", tmp_path / "sessions.db", FakeTools()
    hook = HookConfig(on="turn_end", command=("sh", "-c", f"cat > {told}"))
    every = Hooks([hook], {"PATH": "/usr/bin:/bin"}, str, tmp_path)
    begun: list[str] = []
    all_begun = anyio.Event()

    async def break_the_store(arguments: JsonObject, context: CallContext) -> ToolResult:
        begun.append(context.call_id)
        if len(begun) == calls:
            with closing(sqlite3.connect(path, isolation_level=None)) as database:
                database.execute(damage)
            all_begun.set()
        await all_begun.wait()
        return ToolResult((Text("done"),))

    tools.add("go", break_the_store)
    async with (
        scripted_model([Step(calls=(("go", ""),) * calls), Step(text="Done.")]) as server,
        open_sqlite_store(path, SystemClock()) as store,
        agent_kit(scripted_config(server.url), tools=tools, store=store) as kit,
    ):
        setup = replace(kit.setups["main"], hooks=every)
        claim = Refused(yielding=False, refusal=None)
        context = MessageContext(text="go", session_key="s", claim=claim)
        with pytest.raises(raised):
            await kit.service.reply(context, setup)
    assert len(begun) == calls
    assert not told.exists()


async def test_the_tool_path_asks_hooks_before_a_call_and_tells_them_after_it(
    tmp_path: Path,
) -> None:
    told = tmp_path / "told"
    rules = [
        HookConfig(on="before_tool", command=("sh", "-c", "echo no; exit 1"), tools=("bad",)),
        HookConfig(on="after_tool", command=("sh", "-c", f"cat > {told}")),
    ]
    every = Hooks(rules, {"PATH": "/usr/bin:/bin"}, str, tmp_path)
    tools = FakeTools()
    for name in ("good", "bad"):
        tools.add(name, "done")
    deps = ToolPathDeps(Redactor(), SystemClock(), hooks=every)
    path = tool_path([tools], (), deps)
    context = CallContext("main", "s", "c")
    good, bad = [await path.call(name, {"a": 1}, context) for name in ("good", "bad")]
    assert not good.is_error
    assert "The person's hook refused this call: no" in text_of(bad.blocks)
    assert tools.calls == [("good", {"a": 1})]
    facts = json.loads(told.read_text())
    assert (facts["tool"], facts["arguments"], facts["text"]) == ("good", {"a": 1}, "done")
