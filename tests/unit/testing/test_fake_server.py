"""The fake server, asked in plain JSON-RPC."""

import json
import subprocess
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.support.fake_server import command, server_entry
from tests.support.fake_tools import one_pixel_png, silent_wav

pytestmark = pytest.mark.subprocess
META = "io.modelcontextprotocol/"
MODERN = {"_meta": {f"{META}protocolVersion": "2026-07-28"}}


class Talk:
    """Both ends of a running fake server's pipes."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self.process = process
        self._ids = 0

    def send(self, message: dict[str, Any]) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps({"jsonrpc": "2.0", **message}).encode() + b"\n")
        self.process.stdin.flush()

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.stdin = None

    def line(self) -> bytes:
        assert self.process.stdout is not None
        return self.process.stdout.readline()

    def read(self) -> dict[str, Any]:
        return json.loads(self.line())

    def ask(self, method: str, **params: Any) -> dict[str, Any]:
        self.post(method, **params)
        return self.read()

    def post(self, method: str, **params: Any) -> int:
        self._ids += 1
        self.send({"id": self._ids, "method": method, "params": params})
        return self._ids


@contextmanager
def talking(spec: dict[str, Any], *, stderr: int = subprocess.DEVNULL) -> Generator[Talk]:
    program, arguments = command(spec)
    with subprocess.Popen(
        [program, *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=stderr,
    ) as process:
        try:
            yield Talk(process)
            process.communicate(timeout=60)  # its input ends, and so does it
        finally:
            process.kill()


def tool(name: str, **does: Any) -> dict[str, Any]:
    return {"name": name, "inputSchema": {"type": "object"}, "does": does}


def called(name: str, **does: Any) -> dict[str, Any]:
    with talking({"tools": [tool(name, **does)]}) as talk:
        return talk.ask("tools/call", name=name, arguments={"x": 1})


def words(answer: dict[str, Any]) -> str:
    return answer["result"]["content"][0]["text"]


@pytest.mark.parametrize("revision", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_it_speaks_every_revision_with_a_handshake(revision: str) -> None:
    with talking({"tools": [], "instructions": "Be kind."}) as talk:
        result = talk.ask("initialize", protocolVersion=revision)["result"]
        assert result["protocolVersion"] == revision
        assert result["instructions"] == "Be kind."
        assert talk.ask("ping")["result"] == {}


def test_it_counters_a_revision_that_it_does_not_speak() -> None:
    with talking({"revisions": ["2025-03-26"]}) as talk:
        answer = talk.ask("initialize", protocolVersion="2025-11-25")
        assert answer["result"]["protocolVersion"] == "2025-03-26"


def test_it_can_refuse_the_handshake_altogether() -> None:
    with talking({"revisions": ["2026-07-28"], "discover": "answer"}) as talk:
        assert talk.ask("initialize", protocolVersion="2025-11-25")["error"]["code"] == -32022
        wrong = {"_meta": {f"{META}protocolVersion": "2099-01-01"}}
        assert talk.ask("tools/list", **wrong)["error"]["data"]["supported"] == ["2026-07-28"]


def test_it_answers_discovery_in_the_newest_revision() -> None:
    with talking({"tools": [tool("t")], "discover": "answer"}) as talk:
        result = talk.ask("server/discover", **MODERN)["result"]
        assert "2026-07-28" in result["supportedVersions"]
        listed = talk.ask("tools/list", **MODERN)["result"]
        assert (listed["resultType"], listed["ttlMs"]) == ("complete", 0)


def test_it_refuses_or_ignores_discovery() -> None:
    with talking({}) as talk:
        assert talk.ask("server/discover")["error"]["code"] == -32601
    with talking({"discover": "ignore"}) as talk:
        talk.post("server/discover")
        assert talk.ask("ping")["id"] == 2


def test_it_declares_only_what_the_wire_knows() -> None:
    with talking({"tools": [tool("t", text="x")]}) as talk:
        (listed,) = talk.ask("tools/list")["result"]["tools"]
        assert set(listed) == {"name", "inputSchema"}


def test_it_pages() -> None:
    with talking({"tools": [tool("a"), tool("b")], "pageSize": 1}) as talk:
        first = talk.ask("tools/list")["result"]
        second = talk.ask("tools/list", cursor=first["nextCursor"])["result"]
        assert [first["tools"][0]["name"], second["tools"][0]["name"]] == ["a", "b"]
        assert "nextCursor" not in second


def test_it_pages_without_end() -> None:
    with talking({"tools": [tool("a")], "faults": {"endlessPages": True}}) as talk:
        assert talk.ask("tools/list", cursor="7")["result"]["nextCursor"] == "8"


@pytest.mark.parametrize(
    ("does", "said"),
    [
        ({}, '{"x": 1}'),
        ({"text": "hello"}, "hello"),
        ({"errorText": "no"}, "no"),
        ({"giant": 5}, "xxxxx"),
        ({"sleep": 0.01, "text": "late"}, "late"),
        ({"env": "NO_SUCH_VARIABLE"}, "(unset)"),
        ({"meta": True}, "{}"),
    ],
)
def test_a_tool_does_its_steps(does: dict[str, Any], said: str) -> None:
    assert words(called("t", **does)) == said


def test_a_tool_shows_its_environment_and_its_process() -> None:
    assert "PATH" in json.loads(words(called("t", env=True)))
    assert int(words(called("t", pid=True))) > 0


def test_a_tool_can_answer_with_an_error() -> None:
    assert called("t", error={"message": "no", "data": 1})["error"]["data"] == 1


def test_an_unknown_tool_or_method_is_an_error() -> None:
    with talking({}) as talk:
        assert "Unknown tool" in talk.ask("tools/call", name="x")["error"]["message"]
        assert "Method not found" in talk.ask("what/ever")["error"]["message"]


def test_a_tool_reports_progress_where_it_was_asked_for() -> None:
    with talking({"tools": [tool("t", progress={"times": 2}, text="done")]}) as talk:
        talk.post("tools/call", name="t", _meta={"progressToken": 7})
        heard = [talk.read() for _ in range(3)]
        assert [h["params"]["progress"] for h in heard[:2]] == [1, 2]
        assert words(talk.ask("tools/call", name="t")) == "done"


def test_a_tool_changes_the_list_and_says_so() -> None:
    with talking({"tools": [tool("t", changeTools=[tool("new")])]}) as talk:
        assert talk.ask("tools/call", name="t")["method"] == "notifications/tools/list_changed"
        talk.read()
        assert talk.ask("tools/list")["result"]["tools"][0]["name"] == "new"


def test_changes_are_told_on_open_subscriptions() -> None:
    spec = {"tools": [tool("t", changeTools=[])], "discover": "answer"}
    with talking(spec) as talk:
        opened = talk.ask("subscriptions/listen", notifications={"toolsListChanged": True})
        assert opened["method"] == "notifications/subscriptions/acknowledged"
        told = talk.ask("tools/call", name="t")
        assert told["params"]["_meta"] == {f"{META}subscriptionId": 1}


def test_resources_are_listed_read_and_updated() -> None:
    new = {"uri": "a://1", "name": "one", "text": "new"}
    spec = {
        "tools": [tool("write", updateResource=new)],
        "resources": [{"uri": "a://1", "name": "one", "text": "old", "mimeType": "text/plain"}],
        "resourceTemplates": [{"uriTemplate": "b://{id}", "name": "any"}],
    }
    with talking(spec) as talk:
        assert "text" not in talk.ask("resources/list")["result"]["resources"][0]
        assert talk.ask("resources/templates/list")["result"]["resourceTemplates"]
        for uri, text in (("a://1", "old"), ("b://5", "content of b://5")):
            assert talk.ask("resources/read", uri=uri)["result"]["contents"][0]["text"] == text
        assert "error" in talk.ask("resources/read", uri="c://1")
        assert talk.ask("resources/subscribe", uri="a://1")["result"] == {}
        assert talk.ask("tools/call", name="write")["params"] == {"uri": "a://1"}
        talk.read()
        read = talk.ask("resources/read", uri="a://1", **MODERN)["result"]
        assert (read["contents"][0]["text"], read["ttlMs"]) == ("new", 0)


def test_prompts_are_filled_in() -> None:
    message = {"role": "user", "content": {"type": "text", "text": "Hi {who}"}}
    with talking({"prompts": [{"name": "p", "messages": [message]}]}) as talk:
        assert "messages" not in talk.ask("prompts/list")["result"]["prompts"][0]
        result = talk.ask("prompts/get", name="p", arguments={"who": 'A "B"'})["result"]
        assert result["messages"][0]["content"]["text"] == 'Hi A "B"'
        assert "error" in talk.ask("prompts/get", name="q")


@pytest.mark.parametrize("step", ["sampling", "elicit", "roots"])
def test_a_tool_can_ask_the_client(step: str) -> None:
    with talking({"tools": [tool("t", **{step: {}})]}) as talk:
        question = talk.ask("tools/call", name="t")
        talk.send({"id": question["id"], "result": {"said": step}})
        assert json.loads(words(talk.read())) == {"said": step}


def test_in_the_newest_revision_a_tool_asks_by_its_result() -> None:
    with talking({"tools": [tool("t", elicit={})], "discover": "answer"}) as talk:
        result = talk.ask("tools/call", name="t", **MODERN)["result"]
        assert result["resultType"] == "input_required"
        assert result["inputRequests"]["question"]["method"] == "elicitation/create"
        answers = {"question": {"action": "decline"}}
        again = talk.ask("tools/call", name="t", inputResponses=answers, **MODERN)
        assert json.loads(words(again)) == {"action": "decline"}


def test_a_cancelled_call_is_never_answered() -> None:
    with talking({"tools": [tool("hang", hang=True)]}) as talk:
        asked = talk.post("tools/call", name="hang")
        talk.send({"method": "notifications/cancelled", "params": {"requestId": asked}})
        assert talk.ask("ping")["result"] == {}


@pytest.mark.requirement("NFR-4.2")
@pytest.mark.parametrize(("code", "expected"), [(3, 3), (-9, -9)])
def test_a_crash_in_a_call_ends_the_process(code: int, expected: int) -> None:
    with talking({"tools": [tool("t", crash=code)]}) as talk:
        talk.post("tools/call", name="t")
        assert talk.line() == b""
        assert talk.process.wait() == expected


def test_half_a_line_and_then_nothing() -> None:
    with talking({"tools": [tool("t", halfLine=True)]}) as talk:
        talk.post("tools/call", name="t")
        assert talk.line() == b'{"jsonrpc":"2.0","id":'


def test_it_crashes_after_so_many_calls_or_on_a_method() -> None:
    with talking({"tools": [tool("t")], "faults": {"crashAfterCalls": 1}}) as talk:
        assert words(talk.ask("tools/call", name="t")) == "{}"
        talk.post("tools/call", name="t")
        assert talk.process.wait() == 1
    with talking({"faults": {"crashOn": ["tools/list"]}}) as talk:
        talk.post("tools/list")
        assert talk.process.wait() == 1


def test_raw_deep_and_flooding_answers() -> None:
    spec = {
        "tools": [
            tool("raw", raw="noise", text="x"),
            tool("deep", deep=3),
            tool("flood", notifications=1500, text="after"),
        ]
    }
    with talking(spec) as talk:
        talk.post("tools/call", name="raw")
        assert talk.line() == b"noise\n"
        talk.read()
        assert talk.ask("tools/call", name="deep")["result"]["structuredContent"] == {
            "deep": [[[]]]
        }
        talk.post("tools/call", name="flood")
        heard = [talk.read() for _ in range(1501)]
        assert words(heard[-1]) == "after"


@pytest.mark.requirement("NFR-4.2")
def test_methods_can_hang_be_slow_or_answered_with_nonsense() -> None:
    faults = {
        "hang": ["tools/list"],
        "malformed": ["prompts/list"],
        "slow": {"resources/list": 0.05},
    }
    with talking({"faults": faults}) as talk:
        talk.post("tools/list")
        talk.post("prompts/list")
        assert talk.line().endswith(b"{oops\n")
        assert talk.ask("resources/list")["result"] == {"resources": []}


def test_it_fails_at_start(tmp_path: Path) -> None:
    with talking({"faults": {"exitAtStart": 4, "startDelay": 0.01}}) as talk:
        assert talk.process.wait() == 4
    plan = {"file": str(tmp_path / "n"), "times": 1}
    with talking({"faults": {"startsBeforeWorking": plan}}) as talk:
        assert talk.process.wait() == 1
    with talking({"faults": {"startsBeforeWorking": plan}}) as talk:
        assert talk.ask("ping")["result"] == {}


def test_noise_floods_and_process_ids(tmp_path: Path) -> None:
    log = tmp_path / "pids"
    faults = {"stdoutNoise": 1, "stderrFlood": 2, "pidFile": str(log)}
    with talking({"faults": faults}, stderr=subprocess.PIPE) as talk:
        assert talk.line() == b"noise 0 on stdout\n"
        assert talk.process.stderr is not None
        assert talk.process.stderr.readline() == b"stderr line 0\n"
        assert log.read_text() == f"{talk.process.pid}\n"


def test_it_starts_grandchildren() -> None:
    faults = {"grandchildren": 1}
    with talking({"tools": [tool("spawn", spawn=1)], "faults": faults}) as talk:
        (spawned,) = json.loads(words(talk.ask("tools/call", name="spawn")))
        children = psutil.Process(talk.process.pid).children()
        assert spawned in [child.pid for child in children]
        assert len(children) == 2
        for child in children:
            child.kill()


def test_it_ends_with_stdin_unless_told_otherwise() -> None:
    with talking({"tools": [tool("hang", hang=True)]}) as talk:
        talk.post("tools/call", name="hang")
        talk.end_input()
        assert talk.process.wait(60) == 0
    with talking({"faults": {"ignoreEof": True, "ignoreSigterm": True}}) as talk:
        assert talk.ask("ping")["result"] == {}
        talk.end_input()
        talk.process.terminate()
        with pytest.raises(subprocess.TimeoutExpired):
            talk.process.wait(0.3)
        talk.process.kill()


def test_it_can_be_described_by_a_file_or_by_the_environment(tmp_path: Path) -> None:
    (tmp_path / "spec.json").write_text('{"name": "filed"}')
    base = [sys.executable, "-m", "tests.support.fake_server"]
    asked = b'{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"x"}}\n\n'
    for arguments, environ, name in (
        ([f"@{tmp_path / 'spec.json'}"], {}, "filed"),
        ([], {"FAKE_SERVER": '{"name": "set"}'}, "set"),
        ([], {}, "fake"),
    ):
        done = subprocess.run(
            [*base, *arguments], input=asked, env=environ, capture_output=True, check=True
        )
        assert json.loads(done.stdout)["result"]["serverInfo"]["name"] == name


def test_the_entry_for_a_configuration_starts_it() -> None:
    entry = server_entry({"name": "x"}, lazy=True)
    assert entry["command"] == sys.executable
    assert entry["lazy"] is True


def test_the_media_are_what_they_say() -> None:
    assert one_pixel_png().startswith("iVBOR")
    assert silent_wav().startswith("UklGR")
