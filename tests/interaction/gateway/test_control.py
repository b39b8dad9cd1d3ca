"""The page's controls: configuration, secrets, approvals, logins, schedules and sessions."""

import base64
import json
from typing import Any

import anyio
import anyio.to_thread
import httpx2
import pytest
from tests.interaction.gateway.conftest import Open
from tests.interaction.gateway.test_asking import events_of
from tests.support.fake_oauth import FakeAuthority, browse, protected
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.mcp_server_kit import fake_tool

from openclaw.core.clock import SystemClock
from openclaw.gateway.tokens import TokenFile
from openclaw.testing.scripted_model import Step, scripted_model

pytestmark = pytest.mark.anyio

NOWHERE = "http://127.0.0.1:9"
PNG = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
VALUE = "a-value-nobody-may-see-0123456789"


async def change(client: httpx2.AsyncClient, *changes: Any, **more: Any) -> httpx2.Response:
    return await client.post("/api/config", json={"changes": list(changes), **more})


async def applied(client: httpx2.AsyncClient, *changes: Any) -> Any:
    """Look at a change and make it, as the page does."""
    looked = (await change(client, *changes)).json()
    done = await change(client, *changes, apply=True, digest=looked["digest"])
    assert done.status_code == 200, done.text
    return done.json()


async def test_a_change_that_is_too_deep_is_refused(
    installation: Installation, opened: Open
) -> None:
    installation.configure(NOWHERE)
    value: Any = []
    for _ in range(400):
        value = [value]
    async with opened() as client:
        for one in ({"path": ["a"] * 5000, "value": 1}, {"path": ["a"], "value": value}):
            assert (await change(client, one)).status_code == 400


async def test_a_change_is_shown_then_made_and_takes_effect(
    installation: Installation, opened: Open
) -> None:
    installation.configure(NOWHERE)
    installation.config_file.write_text(
        "// mine\n" + json.dumps(json.loads(installation.config_file.read_text()), indent=2)
    )
    server = {"path": ["agents", "defaults", "mcp", "servers", "one"], "value": server_entry({})}
    async with opened() as client:
        looked = (await change(client, server)).json()
        assert any(line.startswith("+") and '"one"' in line for line in looked["diff"])
        assert '"one"' not in installation.config_file.read_text()
        done = await change(client, server, apply=True, digest=looked["digest"])
        assert done.json()["waiting"] == []
        assert installation.config_file.read_text().startswith("// mine")
        (row,) = (await client.get("/api/servers")).json()["servers"]
        assert row["name"] == "one"
        again = await change(client, server, apply=True, digest=looked["digest"])
        assert (again.status_code, "changed in the meantime" in again.text) == (400, True)
        ask = {"path": ["tools", "ask"], "value": "write", "append": True}
        await applied(client, ask)
        await applied(client, {"path": ["tools", "ask"], "value": "edit", "append": True})
        shown = (await client.get("/api/config")).json()
        assert shown["config"]["tools"]["ask"] == ["write", "edit"]
        await applied(client, {"path": ["tools", "ask", 0], "remove": True})
        assert (await client.get("/api/config")).json()["config"]["tools"]["ask"] == ["edit"]


async def test_what_does_not_hold_is_refused_with_the_reason(
    installation: Installation, opened: Open
) -> None:
    installation.configure(NOWHERE)
    before = installation.config_file.read_text()
    place = ["agents", "defaults", "mcp", "servers"]
    async with opened() as client:
        wrong: list[tuple[Any, str]] = [
            ({"path": [*place, "x"], "value": {"command": 5}}, "x.command"),
            ({"path": ["gatway"], "value": {}}, "gateway"),
            ({"path": [*place, "x"], "value": {"url": "x", "env": {"K": "[REDACTED]"}}}, "secret"),
            ({"path": [], "value": {}}, "empty"),
        ]
        for one, reason in wrong:
            answer = await change(client, one, apply=True, digest="")
            assert (answer.status_code, reason in answer.text) == (400, True), answer.text
    assert installation.config_file.read_text() == before


async def test_no_secret_is_in_what_is_shown_of_the_configuration(
    installation: Installation, opened: Open
) -> None:
    secret, quoted = "plain-secret-0123456789", 'quo"ted-secret-0123456789'
    servers = {"one": {**server_entry({}), "env": {"API_TOKEN": secret}, "lazy": True}}
    installation.configure(NOWHERE, servers)
    installation.config_file.write_text(
        json.dumps(json.loads(installation.config_file.read_text()), indent=2)
    )
    place = ["agents", "defaults", "mcp", "servers", "one", "env"]
    async with opened() as client:
        shown = (await client.get("/api/config")).text
        near = {"path": [*place, "MODE"], "value": "fast"}
        other = {"path": [*place, "API_TOKEN"], "value": quoted}
        texts = [shown, *[(await change(client, one)).text for one in (near, other)]]
        assert not [text for text in texts if secret in text or "ted-secret" in text]
        assert "[REDACTED]" in shown
        assert "fast" in texts[1]
        assert "not shown is different" in texts[2]


async def test_reading_and_changing_the_configuration_needs_an_administrator(
    installation: Installation, opened: Open
) -> None:
    installation.configure(NOWHERE)
    tokens = TokenFile(installation.state, SystemClock())
    token = tokens.add("reader", ("read", "orders"))
    async with opened() as client:
        headers = {"authorization": f"Bearer {token.reveal()}"}
        for method, path in (
            ("GET", "/api/config"),
            ("POST", "/api/config"),
            ("GET", "/api/secrets"),
            ("POST", "/api/secrets"),
            ("DELETE", "/api/secrets/x"),
            ("GET", "/api/approvals"),
            ("POST", "/api/approvals/revoke"),
            ("POST", "/api/servers/x/login"),
            ("POST", "/api/cron"),
            ("DELETE", "/api/cron/x"),
            ("POST", "/api/cron/x/pause"),
            ("POST", "/api/cron/x/run"),
            ("POST", "/api/sessions/x/title"),
            ("POST", "/api/sessions/x/fork"),
        ):
            answer = await client.request(method, path, headers=headers, json={})
            assert answer.status_code == 403, path
        status = (await client.get("/api/status", headers=headers)).json()
        assert status["scopes"] == ["orders", "read"]


async def test_a_secret_is_stored_used_and_never_shown(
    installation: Installation, opened: Open
) -> None:
    servers = {
        "one": {**server_entry({"tools": [fake_tool("t")]}), "env": {"KEY": "secret://store/KEY"}}
    }
    installation.configure(NOWHERE, servers)
    async with opened() as client:

        async def reaches(state: str) -> None:
            with anyio.fail_after(60):
                while True:
                    (row,) = (await client.get("/api/servers")).json()["servers"]
                    if row["state"] == state or (state == "error" and row["state"] == "failed"):
                        return
                    await anyio.sleep(0.02)

        await reaches("error")
        (row,) = (await client.get("/api/secrets")).json()["secrets"]
        place = "agents.defaults.mcp.servers.one.env.KEY"
        assert row == {"name": "KEY", "stored": False, "usedBy": [place]}
        stored = await client.post("/api/secrets", json={"name": "KEY", "value": VALUE})
        assert stored.json()["reference"] == "secret://store/KEY"
        await reaches("ready")
        listed = await client.get("/api/secrets")
        assert listed.json()["secrets"][0]["stored"]
        assert VALUE not in stored.text + listed.text
        for wrong in ({"name": "no such name!", "value": "x"}, {"name": "A", "value": ""}):
            assert (await client.post("/api/secrets", json=wrong)).status_code == 400
        assert (await client.delete("/api/secrets/KEY")).json() == {"removed": "KEY"}
        assert (await client.delete("/api/secrets/KEY")).status_code == 404


WRITES = [
    Step(when="write", role="user", calls=(("write", {"path": "a.txt", "content": "b"}),)),
    Step(role="tool", text="Done."),
]


async def asked(client: httpx2.AsyncClient, session: str, choice: str, **more: Any) -> list[Any]:
    """The questions of a turn that writes, all answered with this choice."""
    body = {"text": "write", "questions": True, "sessionKey": session}
    questions: list[Any] = []
    async for name, data in events_of(client, body):
        if name == "question":
            questions.append(data)
            answer = {"action": "accept" if choice != "no" else "decline", "choice": choice, **more}
            await client.post(f"/api/questions/{data['id']}", json=answer)
    return questions


async def test_what_was_allowed_for_a_session_or_for_always_can_be_revoked(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=WRITES) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client:
            assert len(await asked(client, "s", "session")) == 1
            assert await asked(client, "s", "session") == []
            (row,) = (await client.get("/api/approvals")).json()["approvals"]
            assert row == {"agent": "main", "sessionKey": "s", "rule": "write"}
            assert (await client.post("/api/approvals/revoke", json=row)).status_code == 200
            assert (await client.post("/api/approvals/revoke", json=row)).status_code == 404
            assert len(await asked(client, "s", "always")) == 1
            assert (await client.get("/api/approvals")).json()["approvals"] == []
            await client.post("/api/reload", json={})
            assert await asked(client, "s", "always") == []
            assert await asked(client, "other", "always") == []
            await applied(client, {"path": ["tools", "approved", 0], "remove": True})
            assert len(await asked(client, "s", "once")) == 1


async def test_a_transcript_says_how_long_calls_took_and_what_the_person_said(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(rules=WRITES) as model:
        installation.configure(model.url, tools={"ask": ["write"]})
        async with opened() as client:
            await asked(client, "s", "once")
            await asked(client, "s", "no", reason="not now")
            entries = (await client.get("/api/sessions/s")).json()["entries"]
    (call,) = [one["data"] for one in entries if one["kind"] == "tool_call"]
    assert call["label"] == "Write"
    allowed, refused = [one["data"] for one in entries if one["kind"] == "tool_result"]
    assert allowed["durationMs"] >= 0
    assert allowed["approval"]["choice"] == "once"
    assert allowed["approval"]["allowed"]
    assert "a.txt" in allowed["approval"]["title"] + allowed["approval"]["body"]
    assert not refused["approval"]["allowed"]
    assert refused["approval"]["reason"] == "not now"
    endings = [one["data"] for one in entries if one["kind"] == "turn_finished"]
    assert [one["usage"]["requests"] for one in endings] == [2, 2]


async def test_somebody_logs_in_to_a_server_from_the_page(
    installation: Installation, opened: Open
) -> None:
    with FakeAuthority().running() as authority:
        async with protected({"tools": [fake_tool("t")]}, authority) as server:
            installation.configure(NOWHERE, {"docs": {"url": server.url, "auth": "oauth"}})
            async with opened() as client:
                assert (await client.post("/api/servers/x/login", json={})).status_code == 404
                seen: list[str] = []
                with anyio.fail_after(60):
                    async with client.stream("POST", "/api/servers/docs/login") as answer:
                        async for line in answer.aiter_lines():
                            seen.append(line)
                            if line.startswith("data: ") and "url" in line:
                                url = json.loads(line[6:])["url"]
                                await anyio.to_thread.run_sync(browse, url)
                assert 'data: {"loggedIn":"docs"}' in seen


async def test_somebody_whose_browser_is_elsewhere_pastes_the_address_that_it_ended_at(
    installation: Installation, opened: Open
) -> None:
    with FakeAuthority().running() as authority:
        async with protected({"tools": [fake_tool("t")]}, authority) as server:
            installation.configure(NOWHERE, {"docs": {"url": server.url, "auth": "oauth"}})
            async with opened() as client, httpx2.AsyncClient(trust_env=False) as browser:
                pasted = "/api/servers/docs/login/address"
                early = await client.post(pasted, json={"address": "http://127.0.0.1:1/"})
                ended_at, told = "", list[str]()
                with anyio.fail_after(60):
                    async with client.stream("POST", "/api/servers/docs/login") as answer:
                        async for line in answer.aiter_lines():
                            if line.startswith("event: "):
                                told.append(line.removeprefix("event: "))
                            if line.startswith("data: ") and told[-1] == "address":
                                url = json.loads(line.removeprefix("data: "))["url"]
                                ended_at = (await browser.get(url)).headers["location"]
                                wrong = {"address": "http://127.0.0.1:1/callback?code=1&state=2"}
                                await client.post(pasted, json=wrong)
                            elif line.startswith("data: ") and told[-1] == "problem":
                                await client.post(pasted, json={"address": ended_at})
    assert early.status_code == 404
    assert told == ["address", "problem", "done"]


async def test_schedules_are_added_paused_run_and_removed(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model(default=Step(text="It rains.")) as model:
        installation.configure(model.url)
        async with opened() as client:
            body = {"when": "weekdays 8:00", "message": "Weather?", "name": "w", "timezone": "UTC"}
            added = (await client.post("/api/cron", json=body)).json()
            assert (added["cron"], added["sessionKey"]) == ("0 8 * * 1-5", "cron:w")
            assert (await client.post("/api/cron", json=body)).status_code == 400
            wrong = {**body, "name": "v", "when": "sometimes"}
            assert "not understood" in (await client.post("/api/cron", json=wrong)).text
            paused = await client.post("/api/cron/w/pause", json={"paused": True})
            assert paused.json()["nextAt"] is None
            await client.post("/api/cron/w/pause", json={"paused": False})
            (row,) = (await client.get("/api/cron")).json()["jobs"]
            assert row["nextAt"] is not None
            ran = (await client.post("/api/cron/w/run")).json()
            assert ran["sessionKey"] == "cron:w"
            with anyio.fail_after(60):
                while "It rains." not in (await client.get("/api/sessions/cron:w")).text:  # noqa: ASYNC110
                    await anyio.sleep(0.02)
                while row["lastOutcome"] != "ok":
                    (row,) = (await client.get("/api/cron")).json()["jobs"]
            assert (await client.delete("/api/cron/w")).json() == {"removed": "w"}
            assert (await client.post("/api/cron/w/run")).status_code == 404


async def test_a_session_is_renamed_and_begun_again_from_a_turn_of_it(
    installation: Installation, opened: Open
) -> None:
    image = {"mimeType": "image/png", "data": PNG, "name": "a.png"}
    async with scripted_model(default=Step(text="You said: {last}")) as model:
        installation.configure(model.url)
        async with opened() as client:
            for text in ("one", "two", "three"):
                message = {"text": text, "sessionKey": "s", "stream": False}
                media = [image] if text == "one" else []
                assert (
                    await client.post("/api/messages", json={**message, "media": media})
                ).is_success
            await client.post("/api/sessions/s/title", json={"title": "Numbers"})
            shown = (await client.get("/api/sessions/s")).json()
            assert shown["session"]["title"] == "Numbers"
            said = {
                one["text"]: one["seq"] for one in shown["entries"] if one["kind"] == "user_message"
            }
            made = (
                await client.post("/api/sessions/s/fork", json={"before": said["three"]})
            ).json()
            fork = (await client.get(f"/api/sessions/{made['sessionKey']}")).json()
            before = said["three"] - 2  # its turn begins with an entry of its own
            assert fork["entries"] == shown["entries"][:before]
            assert fork["session"]["title"] == "Numbers"
            assert fork["session"]["messages"] == 4
            first = next(one for one in fork["entries"] if one["kind"] == "user_message")
            digest = first["data"]["media"][0]["digest"]
            for key in ("s", made["sessionKey"]):
                kept = await client.get(f"/api/sessions/{key}/media/{digest}")
                assert kept.content == base64.b64decode(PNG)
                assert kept.headers["content-security-policy"] == "default-src 'none'; sandbox"
            assert (await client.get("/api/sessions/s/media/none")).status_code == 404
            message = {"text": "four", "sessionKey": made["sessionKey"], "stream": False}
            await client.post("/api/messages", json=message)
            roles = [
                one["content"]
                for one in model.requests[-1].body["messages"]
                if one["role"] == "user"
            ]
            assert "three" not in str(roles)
            assert "two" in str(roles)
            whole = (await client.post("/api/sessions/s/fork", json={"before": said["one"]})).json()
            assert (await client.get(f"/api/sessions/{whole['sessionKey']}")).json()[
                "entries"
            ] == []


async def test_a_model_that_the_provider_does_not_list_is_warned_of(
    installation: Installation, opened: Open
) -> None:
    async with scripted_model() as model:
        installation.configure(model.url)
        async with opened() as client:
            for name, told in (("scriptd", ["did you mean"]), ("scripted", [])):
                one = {"path": ["agents", "defaults", "model"], "value": f"acme/{name}"}
                warnings = (await change(client, one)).json()["warnings"]
                assert len(warnings) == len(told)
                assert all(words in one for one, words in zip(warnings, told, strict=True))
            asked = await client.get("/api/models", params={"check": "acme/scriptd"})
            assert "acme/scripted" in asked.json()["problem"]
