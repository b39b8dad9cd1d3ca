"""The page as a control panel: servers, rules, approvals, secrets, jobs, tasks, usage and models."""

import asyncio
import json
import re
from collections.abc import AsyncGenerator, Iterator
from pathlib import Path
from typing import Any

import keyring
import pytest
from keyring.backends.fail import Keyring as FailKeyring
from playwright.async_api import Page, expect
from tests.e2e import test_page
from tests.e2e.test_page import OpenPage, Site
from tests.support.fake_oauth import FakeAuthority, browse, protected
from tests.support.fake_server import server_entry
from tests.support.gateway_kit import Installation
from tests.support.page_kit import CHROMIUM, TOKEN, say, send

from openclaw.config.load import load_config
from openclaw.core.clock import SystemClock
from openclaw.gateway.tokens import TokenFile
from openclaw.sessions.open import open_store
from openclaw.sessions.task_records import Task, read_inboxes, say_alive, write_task
from openclaw.testing.scripted_model import Step, scripted_model

browser, open_page, page = test_page.browser, test_page.open_page, test_page.page
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium here"),
]

RULES = (
    Step(when="write", role="user", calls=(("write", {"path": "a.txt", "content": "b"}),)),
    Step(role="tool", text="Done."),
)
VALUE = "a-value-nobody-may-see-0123456789"
ECHO = {"name": "echo", "inputSchema": {"type": "object"}}


@pytest.fixture(autouse=True)
def no_keyring() -> Iterator[None]:
    """Other tests of this process may have found a keyring that works."""
    before = keyring.get_keyring()
    keyring.set_keyring(FailKeyring())
    yield
    keyring.set_keyring(before)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncGenerator[Site]:
    installation = Installation(tmp_path / "state")
    installation.state.mkdir(mode=0o700)
    async with scripted_model(rules=RULES, default=Step(text="You said: {last}")) as model:
        installation.configure(
            model.url,
            {"kit": server_entry({"tools": [ECHO]})},
            gateway={"auth": {"token": "secret://env/PAGE_TOKEN"}},
            tools={"ask": ["write"]},
        )
        provider = written(installation)["models"]["providers"]["acme"]
        config = written(installation)
        config["models"]["providers"]["acme"]["models"] = [
            *provider["models"],
            {"id": "other", "cost": {"input": 3, "output": 15}},
        ]
        installation.config_file.write_text("// kept\n" + json.dumps(config, indent=2) + "\n")
        async with installation.here(PAGE_TOKEN=TOKEN) as info:
            yield Site(info.url, installation, model)


def written(installation: Installation) -> dict[str, Any]:
    """The configuration file, without its comment."""
    return json.loads(installation.config_file.read_text().removeprefix("// kept\n"))


async def view(page: Page, name: str) -> None:
    await page.get_by_role("link", name=name).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(name)


async def apply(page: Page, *shown: str) -> None:
    """Agree to a change, which shows these words."""
    dialog = page.get_by_role("dialog")
    for words in shown:
        await expect(dialog.get_by_label("Changes")).to_contain_text(words)
    await dialog.get_by_role("button", name="Apply").click()
    await expect(dialog).to_have_count(0)


async def test_a_server_is_added_edited_disabled_enabled_and_removed(
    site: Site, page: Page
) -> None:
    await view(page, "MCP servers")
    await page.get_by_role("button", name="Add", exact=True).click()
    entry = server_entry({"tools": [ECHO]})
    name = page.get_by_label("Name", exact=True)
    await name.first.fill("bad name!")
    await page.get_by_role("button", name="Continue").click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("letters, digits")
    await name.first.fill("extra")
    words = " ".join(json.dumps(word) for word in [entry["command"], *entry["args"]])
    await page.get_by_label("Command").fill(words)
    await page.get_by_label("Sandbox").select_option("off")
    await page.get_by_role("button", name="Add another").click()
    await name.last.fill("API_KEY")
    await page.get_by_label("Value of the new one").fill(VALUE)
    await page.get_by_role("button", name="Continue").click()
    await apply(page, '+        "extra": {', '"API_KEY": "secret://store/extra_API_KEY"')
    card = page.locator(".server").filter(has_text="extra")
    await expect(card).to_have_attribute("data-state", "ready")
    saved = written(site.installation)["agents"]["defaults"]["mcp"]["servers"]["extra"]
    assert saved == {**entry, "env": {"API_KEY": "secret://store/extra_API_KEY"}}
    assert site.installation.config_file.read_text().startswith("// kept")
    assert VALUE not in site.installation.config_file.read_text() + await page.content()

    process = card.locator("dt:text-is('Process') + dd")
    first_process = await process.inner_text()
    await card.get_by_role("button", name="Edit extra").click()
    await expect(page.get_by_label("Value of API_KEY")).to_have_value(
        "secret://store/extra_API_KEY"
    )
    await page.get_by_role("button", name="Add another").click()
    await name.last.fill("MODE")
    await page.get_by_label("Value of the new one").fill("fast")
    await page.get_by_role("button", name="Continue").click()
    await apply(page, '"MODE": "fast"')
    saved = written(site.installation)["agents"]["defaults"]["mcp"]["servers"]["extra"]
    assert saved["env"] == {"API_KEY": "secret://store/extra_API_KEY", "MODE": "fast"}
    await expect(process).not_to_have_text(first_process)

    await card.get_by_role("button", name="Disable extra").click()
    await apply(page, '"enabled": false')
    await expect(card).to_have_attribute("data-state", "disabled")
    await card.get_by_role("button", name="Enable extra").click()
    await apply(page, '"enabled": false')
    await expect(card).to_have_attribute("data-state", "ready")
    await card.get_by_role("button", name="Remove extra").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await apply(page, '-        "extra": {')
    await expect(card).to_have_count(0)
    assert list(written(site.installation)["agents"]["defaults"]["mcp"]["servers"]) == ["kit"]


async def test_a_change_that_was_overtaken_is_not_made(site: Site, page: Page) -> None:
    await view(page, "MCP servers")
    await page.get_by_role("button", name="Disable kit").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_visible()
    text = site.installation.config_file.read_text().replace("// kept", "// changed")
    site.installation.config_file.write_text(text)
    await page.get_by_role("button", name="Apply").click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("in the meantime")
    await page.get_by_role("button", name="Cancel").click()
    assert site.installation.config_file.read_text() == text


async def test_servers_that_need_somebody_show_in_the_navigation(site: Site, page: Page) -> None:
    link = page.get_by_role("link", name="MCP servers")
    await expect(link).to_have_text("MCP servers")
    config = written(site.installation)
    broken = server_entry({"faults": {"exitAtStart": 3}}, maxRestarts=0)
    config["agents"]["defaults"]["mcp"]["servers"]["broken"] = broken
    site.installation.config_file.write_text(json.dumps(config))
    await expect(link).to_have_text("MCP servers1 needs attention")
    await link.click()
    await expect(page.locator(".server").filter(has_text="broken")).to_contain_text("Failed")


async def test_somebody_logs_in_to_a_server(tmp_path: Path, site: Site, page: Page) -> None:
    import anyio.to_thread

    with FakeAuthority().running() as authority:
        async with protected({"tools": [ECHO]}, authority) as server:
            config = written(site.installation)
            servers = config["agents"]["defaults"]["mcp"]["servers"]
            servers["docs"] = {"url": server.url, "auth": "oauth"}
            site.installation.config_file.write_text(json.dumps(config))
            await view(page, "MCP servers")
            card = page.locator(".server").filter(has_text="docs")
            await expect(card).to_have_attribute("data-state", "needs_login")
            await card.get_by_role("button", name="Log in to docs").click()
            address = card.get_by_role("link", name="Open the login page")
            url = await address.get_attribute("href")
            assert url is not None
            await anyio.to_thread.run_sync(browse, url)
            await expect(card).to_have_attribute("data-state", "ready")
            await expect(address).to_have_count(0)
            config["agents"]["defaults"]["mcp"]["servers"].pop("docs")
            site.installation.config_file.write_text(json.dumps(config))
            await expect(card).to_have_count(0)


async def test_rules_are_changed_with_their_diff(site: Site, page: Page) -> None:
    await view(page, "Settings")
    await page.get_by_label("Add to “Never”").fill("mcp_kit_*")
    await page.keyboard.press("Enter")
    await apply(page, "mcp_kit_*")
    await expect(page.get_by_role("button", name="Remove mcp_kit_* from “Never”")).to_be_visible()
    await page.get_by_role("button", name="Remove write from “Ask me first”").click()
    await apply(page, '"write"')
    await page.get_by_label("Shell commands").select_option("off")
    await apply(page, '"exec": "off"')
    assert written(site.installation)["tools"] == {"ask": [], "deny": ["mcp_kit_*"], "exec": "off"}
    async with asyncio.timeout(
        60
    ):  # the view is drawn anew after a change, and forgets what is typed
        while not await page.get_by_text("Nothing to change").count():
            await page.get_by_label("Add to “Never”").fill("mcp_kit_*")
            await page.keyboard.press("Enter")
            await page.wait_for_timeout(500)


async def test_what_was_allowed_is_listed_and_revoked(site: Site, page: Page) -> None:
    for choice in ("In this session: every call of write", "Always: every call of write"):
        await page.get_by_role("button", name="New chat").click()
        await send(page, "write it")
        await page.get_by_role("button", name=choice).click()
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await view(page, "Settings")
    await page.get_by_role("button", name="Revoke write, always, for every agent").click()
    await apply(page, '"write"')
    await page.get_by_role(
        "button", name=re.compile("Revoke write, for the rest of a chat")
    ).click()
    await expect(page.get_by_text("None yet. Calls that you allow")).to_be_visible()
    assert written(site.installation)["tools"]["approved"] == []
    await page.locator(".session").first.click()
    await send(page, "write it")
    await expect(page.get_by_role("button", name="Allow once")).to_be_enabled()


async def test_a_secret_is_set_replaced_and_removed_and_never_shown(site: Site, page: Page) -> None:
    await view(page, "Settings")
    await page.get_by_role("button", name="Add a secret").click()
    await page.get_by_label("Name").fill("MY_KEY")
    await page.get_by_role("button", name="Store").click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("missing")
    await page.get_by_label("Value").fill(VALUE)
    await page.get_by_role("button", name="Store").click()
    await expect(page.get_by_text("not used by the configuration")).to_be_visible()
    stored = site.installation.state / "secrets.json"
    assert json.loads(stored.read_text()) == {"MY_KEY": VALUE}
    await page.get_by_role("button", name="Replace MY_KEY").click()
    await page.get_by_label("Value").fill(VALUE[::-1])
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("dialog")).to_have_count(0)
    assert json.loads(stored.read_text()) == {"MY_KEY": VALUE[::-1]}
    assert VALUE not in await page.content()
    await page.get_by_role("button", name="Remove MY_KEY").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.get_by_text("No secrets are stored.")).to_be_visible()


async def test_a_model_is_chosen_for_a_chat_and_for_good(site: Site, page: Page) -> None:
    await page.get_by_label("Model", exact=True).select_option("acme/other")
    await say(page, "with the other one")
    assert site.model.requests[-1].body["model"] == "other"
    await page.get_by_role("button", name="New chat").click()
    await say(page, "with the usual one")
    assert site.model.requests[-1].body["model"] == "scripted"
    await view(page, "Settings")
    await page.get_by_label("Model of every agent").fill("nowhere/nothing")
    await page.get_by_role("button", name="Change").click()
    await expect(page.locator(".toast")).to_contain_text("no provider")
    await page.get_by_label("Model of every agent").fill("acme/other")
    await page.get_by_role("button", name="Change").click()
    await apply(page, '"model": "acme/other"')
    loaded = load_config(None, site.installation.environ(PAGE_TOKEN=TOKEN))
    assert loaded.config.agents.defaults.model is not None
    assert loaded.config.agents.defaults.model.primary == "acme/other"
    await page.get_by_role("button", name="New chat").click()
    await expect(page.locator(".welcome")).to_contain_text("acme/other")


async def test_jobs_are_added_run_paused_and_removed(site: Site, page: Page) -> None:
    await view(page, "Jobs and tasks")
    await page.get_by_role("button", name="Add a job").click()
    await page.get_by_label("When").fill("sometimes")
    await page.get_by_label("Message to the agent").fill("What is new?")
    await page.get_by_label("Name (optional)").fill("news")
    await page.get_by_role("button", name="Add", exact=True).click()
    await expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("not understood")
    await page.get_by_label("When").fill("weekdays 8:00")
    await page.get_by_role("button", name="Add", exact=True).click()
    card = page.locator(".card").filter(has_text="What is new?")
    await expect(card.locator(".badge")).to_contain_text("next")
    await card.get_by_role("button", name="Pause news").click()
    await expect(card.locator(".badge")).to_have_text("paused")
    await card.get_by_role("button", name="Resume news").click()
    await card.get_by_role("button", name="Run news now").click()
    await card.get_by_role("link", name="Chat of news").click()
    await expect(page.locator(".prose")).to_have_text("You said: What is new?")
    await view(page, "Jobs and tasks")
    await card.get_by_role("button", name="Remove news").click()
    await page.get_by_role("dialog").get_by_role("button", name="Remove").click()
    await expect(page.get_by_text("Nothing is scheduled")).to_be_visible()


async def test_tasks_are_shown_with_what_came_of_them_and_stopped(site: Site, page: Page) -> None:
    now = SystemClock().now_ms()
    ids = {"reader": "", "runner": "elsewhere", "agent": "main", "session": "s", "turn": "t"}
    more: Any = {**ids, "secret": "", "created_ms": now, "updated_ms": now}
    result = {"content": [{"type": "text", "text": "It <b>rains</b>."}]}
    done = Task(
        id="a" * 32, title="Look at the **weather**", status="completed", result=result, **more
    )
    open_one = Task(id="b" * 32, title="Wait for rain", **more)
    async with open_store("file", site.installation.paths, SystemClock()) as store:
        for task in (done, open_one):
            assert await write_task(store, task) is not None
        await say_alive(store, "elsewhere", now)
    await view(page, "Jobs and tasks")
    card = page.locator(".card").filter(has_text="Look at the weather")
    await expect(card.locator(".badge")).to_have_text("Done")
    await card.locator("summary").click()
    await expect(card.locator("pre")).to_have_text("It <b>rains</b>.")
    await page.get_by_role("button", name="Stop Wait for rain").click()
    await expect(page.locator("#announcer")).to_have_text("Asked it to stop")
    async with open_store("file", site.installation.paths, SystemClock()) as store:
        assert (await read_inboxes(store, [open_one.id]))[open_one.id]["cancel"] is True


async def test_usage_is_added_up(site: Site, page: Page) -> None:
    await view(page, "Usage")
    await expect(page.get_by_text("No usage")).to_be_visible()
    await page.get_by_role("button", name="New chat").click()
    await page.get_by_label("Model", exact=True).select_option("acme/other")
    await say(page, "count **this**")
    await view(page, "Usage")
    table = page.get_by_role("group", name="By chat")
    row = table.get_by_role("row").filter(has_text="count this")
    await expect(row).to_contain_text("$")
    await expect(page.get_by_role("group", name="By model")).to_contain_text("acme/other")
    await page.get_by_label("Period").select_option("Today")
    await expect(row).to_be_visible()


async def test_a_token_that_may_only_read_and_order_sees_no_controls(
    site: Site, open_page: OpenPage
) -> None:
    token = (
        TokenFile(site.installation.state, SystemClock()).add("phone", ("read", "orders")).reveal()
    )
    async with open_page(site.url, token) as page:
        await say(page, "hello there")
        await expect(page.locator(".prose")).to_have_text("You said: hello there")
        await expect(page.get_by_role("link", name="Settings")).to_have_count(0)
        await view(page, "MCP servers")
        await expect(page.locator(".server")).to_contain_text("Ready")
        for name in ("Add", "Reload", "Restart kit", "Edit kit", "Disable kit", "Remove kit"):
            await expect(page.get_by_role("button", name=name, exact=True)).to_have_count(0)
        await view(page, "Jobs and tasks")
        await expect(page.get_by_role("button", name="Add a job")).to_have_count(0)
