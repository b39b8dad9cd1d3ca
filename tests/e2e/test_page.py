"""The gateway's page in a real browser, with a scripted model behind it."""

import base64
import os
import signal
from collections.abc import AsyncGenerator, Callable, Generator
from contextlib import (
    AbstractAsyncContextManager,
    ExitStack,
    asynccontextmanager,
    contextmanager,
    suppress,
)
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import httpx2
import pytest
from anyio import create_task_group, create_tcp_listener
from anyio.abc import SocketAttribute
from playwright.async_api import Browser, Page, Request, async_playwright, expect
from tests.support import disguised_call
from tests.support.fake_http import QuietHandler, serving
from tests.support.fake_server import server_entry
from tests.support.fake_tools import silent_wav
from tests.support.gateway_kit import Installation
from tests.support.page_kit import CHROMIUM, FLAGS, TOKEN, say

from openclaw.agent.transcript import UserItem, user_entry
from openclaw.config.load import load_config
from openclaw.config.merge import effective_agents
from openclaw.core.clock import SystemClock
from openclaw.core.outcome import Outcome
from openclaw.mcp_client.catalog.pin_store import PinStore, pin_key
from openclaw.mcp_client.catalog.pins import Declaration
from openclaw.sessions.open import open_store
from openclaw.testing.scripted_model import ScriptedModel, Step, scripted_model

pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(
        not CHROMIUM, reason="no Chromium here; 'scripts/test-programs' installs one"
    ),
]

DISGUISED = f"{'x' * 30_000}\n{disguised_call.CONTENT}"
PATIENCE = 60_000  # milliseconds, for a machine that has much else to do
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNkYPhfDwAChwGA60e6kgAAAABJRU5ErkJggg=="
)
HOSTILE = """<script>window.pwned = 1</script><img src=x onerror="window.pwned=2">
[click](javascript:window.pwned=3) [x](data:text/html,<script>window.pwned=4</script>)
<javascript:window.pwned=5> ![pic](https://tracker.example/pixel.png) <svg onload=window.pwned=6>
[good](https://good.example/ "title") <iframe srcdoc="<script>parent.pwned=7</script>"></iframe>
| a<script>window.pwned=8</script> | b |
|---|---|
| `<b>` | "><img src=y onerror=window.pwned=9> |
"""
ECHO = {
    "name": "echo",
    "description": "Says it again. <img src=x onerror='window.pwned=10'>",
    "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}},
}
ASK = {
    "name": "ask",
    "inputSchema": {"type": "object"},
    "does": {
        "elicit": {
            "message": "Which <b>colour</b>?",
            "requestedSchema": {
                "type": "object",
                "properties": {
                    "colour": {"type": "string", "enum": ["red", "green"]},
                    "count": {"type": "integer"},
                    "sure": {"type": "boolean"},
                    "note": {"type": "string", "description": "<i>anything</i>"},
                },
                "required": ["colour", "count"],
            },
        }
    },
}
EVIL = {
    "name": "<img src=x onerror=window.pwned=11>",
    "description": "<script>window.pwned=12</script>",
    "inputSchema": {"type": "object", "title": "<b onclick=1>"},
}
PROMPT = {
    "name": "greet",
    "description": "Greets somebody <img src=x onerror=window.pwned=14>",
    "arguments": [{"name": "who", "description": "whom", "required": True}, {"name": "tone"}],
    "messages": [{"role": "user", "content": {"type": "text", "text": "Greet {who}, {tone}."}}],
}
PAINT = {
    "name": "paint",
    "inputSchema": {"type": "object"},
    "does": {
        "result": {
            "content": [
                {"type": "image", "mimeType": "image/png", "data": base64.b64encode(PNG).decode()},
                {"type": "audio", "mimeType": "audio/wav", "data": silent_wav()},
            ]
        }
    },
}
WIDE = f"| {'| '.join(['column'] * 30)}|\n|{'---|' * 30}\n\n```\n{'x' * 500}\n```\n\n{'y' * 500}"

RULES = (
    Step(
        when="weather",
        role="user",
        text="Let me look.",
        calls=(("mcp_kit_echo", {"text": "<u>Lisbon</u>"}),),
    ),
    Step(
        when="picture",
        role="user",
        calls=(
            ("mcp_kit_paint", {}),
            ("attach", {"path": "chart.png"}),
            ("attach", {"path": "drawing.svg"}),
        ),
    ),
    Step(when="question", role="user", calls=(("mcp_kit_ask", {}),)),
    Step(when="disguised", role="user", calls=(("write", {"path": "c.sh", "content": DISGUISED}),)),
    Step(when="permission", role="user", calls=(("write", {"path": "a.txt", "content": "b"}),)),
    Step(when="colour", role="tool", text="It said {last}"),
    Step(role="tool", text="It is **mild**, " + "mild, " * 15 + "and dry.", delay=0.02),
    Step(when="attack", text=HOSTILE),
    Step(when="long", role="user", text=" ".join(f"word {n}" for n in range(2000)), delay=0.03),
    Step(when="steady", role="user", text=" ".join(f"step {n}" for n in range(40)), delay=0.05),
    Step(when="hang", hang=True),
    Step(when="refuse", status=401, message="wrong key"),
    Step(when="wide", text=WIDE),
    Step(when="ponder", thinking="First this, <i>then</i> that.", text="Done."),
)


@dataclass(frozen=True)
class Site:
    """A gateway whose page is open to a browser."""

    url: str
    installation: Installation
    model: ScriptedModel


@pytest.fixture(scope="module")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Site]:
    state = tmp_path_factory.mktemp("page") / "state"
    state.mkdir(mode=0o700)
    installation = Installation(state)
    servers = {
        "kit": server_entry(
            {
                "tools": [ECHO, EVIL, PAINT, ASK],
                "prompts": [PROMPT],
                "completes": {"who": ["Anna", "Anna Maria", "<b>Bob</b>"]},
            }
        ),
        "broken": server_entry({"faults": {"exitAtStart": 3}}, maxRestarts=0),
    }
    async with scripted_model(rules=RULES, default=Step(text="You said: {last}")) as model:
        installation.configure(
            model.url,
            servers,
            agents={"list": [{"id": "main"}, {"id": "research", "name": "Research"}]},
            gateway={"auth": {"token": "secret://env/PAGE_TOKEN"}},
            tools={"ask": ["write"]},
        )
        async with installation.here(PAGE_TOKEN=TOKEN) as info:
            yield Site(info.url, installation, model)


@pytest.fixture(scope="module")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncGenerator[Browser]:
    home = tmp_path_factory.mktemp("browser")
    expect.set_options(timeout=PATIENCE)
    async with async_playwright() as playwright:
        environ: dict[str, str | float | bool] = {"HOME": str(home), "PATH": os.environ["PATH"]}
        browser = await playwright.chromium.launch(
            executable_path=CHROMIUM, args=FLAGS, env=environ, headless=True
        )
        yield browser
        await browser.close()


OpenPage = Callable[..., AbstractAsyncContextManager[Page]]


@pytest.fixture
def open_page(browser: Browser) -> OpenPage:
    """Opens a page; while it is open nothing may break its policy, fail, or reach another host."""

    @asynccontextmanager
    async def opened(url: str, token: str = "", **options: Any) -> AsyncGenerator[Page]:
        wanted: dict[str, Any] = {"color_scheme": "light", **options}
        context = await browser.new_context(**wanted)
        if token:
            await context.add_init_script(f"localStorage.setItem('openclaw.token', '{token}')")
        page = await context.new_page()
        page.set_default_timeout(PATIENCE)
        troubles: list[str] = []

        def said(kind: str, text: str) -> None:
            # A refused or unreachable gateway is part of some tests, and the browser logs it.
            if kind == "error" and "Failed to load resource" not in text:
                troubles.append(text)

        def asked(request: Request) -> None:
            if not request.url.startswith((url.partition("/#")[0], "blob:", "data:")):
                troubles.append(request.url)

        page.on("console", lambda message: said(message.type, message.text))
        page.on("pageerror", lambda error: troubles.append(str(error)))
        page.on("request", asked)
        try:
            await page.goto(url)
            yield page
            assert await page.evaluate("window.pwned") is None
        finally:
            await context.close()
        assert troubles == []

    return opened


@pytest.fixture
async def page(site: Site, open_page: OpenPage) -> AsyncGenerator[Page]:
    """The page of somebody who has logged in, with a chat that is empty."""
    async with open_page(site.url, token=TOKEN) as page:
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        yield page


async def log_in(page: Page, token: str = TOKEN) -> None:
    await page.get_by_label("Gateway token").fill(token)
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()


async def test_a_wrong_token_is_refused_and_the_right_one_lets_in_until_logging_out(
    site: Site, open_page: OpenPage
) -> None:
    async with open_page(site.url) as page:
        await page.get_by_label("Gateway token").fill("wrong")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert").first).to_contain_text(
            "doesn't recognise this token"
        )
        await log_in(page)
        assert TOKEN not in page.url
        await page.reload()
        await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
        await page.get_by_role("button", name="Log out").click()
        await expect(page.get_by_label("Gateway token")).to_be_focused()
        assert await page.evaluate("Object.keys(localStorage).length + document.cookie.length") == 0


async def test_the_page_allows_no_code_but_its_own(site: Site) -> None:
    async with httpx2.AsyncClient(base_url=site.url, trust_env=False) as client:
        answer = await client.get("/")
    policy = answer.headers["content-security-policy"]
    for rule in (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "img-src 'self' data: blob:",
        "connect-src 'self'",
        "frame-ancestors 'none'",
        "base-uri 'none'",
        "form-action 'none'",
    ):
        assert rule in policy
    assert "unsafe" not in policy


async def test_an_answer_appears_as_it_is_written_with_its_tool_call(page: Page) -> None:
    await page.evaluate(
        """() => {
          window.drawn = new Set();
          const look = () => {
            const last = [...document.querySelectorAll(".prose")].at(-1);
            if (last && !document.querySelector(".usage")) window.drawn.add(last.textContent);
          };
          new MutationObserver(look).observe(document.body, { subtree: true, childList: true });
        }"""
    )
    await say(page, "What about the weather?")
    drawn: list[str] = await page.evaluate("[...window.drawn].filter((t) => t.includes('mild'))")
    assert len(drawn) > 2
    assert all(later.startswith(earlier) for earlier, later in pairwise(drawn))
    call = page.locator(".call")
    await expect(call).to_have_attribute("data-state", "done")
    await expect(call.locator("summary")).to_contain_text("MCP: kit/echo")
    await expect(call.locator("pre").first).to_be_hidden()
    await call.locator("summary").click()
    await expect(call.locator("pre").first).to_have_text('{\n  "text": "<u>Lisbon</u>"\n}')
    await expect(call.locator(".call-result")).to_contain_text("<u>Lisbon</u>")
    await expect(page.locator(".prose").nth(0)).to_have_text("Let me look.")
    await expect(page.locator(".prose").nth(1).locator("strong")).to_have_text("mild")
    await expect(page.locator(".prose")).to_have_count(2)


async def test_pictures_sounds_and_files_that_the_agent_hands_over_are_shown(
    site: Site, page: Page
) -> None:
    workspace = site.installation.state / "workspace"
    (workspace / "chart.png").write_bytes(PNG)
    (workspace / "drawing.svg").write_text("<svg onload='window.pwned=14'/>")
    await say(page, "a picture, please")
    media = page.locator(".message.agent > .media")
    chart = media.filter(has_text="chart.png")
    for picture in (media.first.locator("img"), chart.locator("img")):
        await expect(picture).to_be_visible()
        assert await picture.evaluate("image => image.decode().then(() => image.naturalWidth)") == 1
    await expect(media.locator("audio")).to_have_count(1)
    # What could be a page with scripts in it is not shown, only offered for saving.
    drawing = media.filter(has_text="drawing.svg")
    await drawing.get_by_role("button").click()
    await expect(drawing.locator("a[download]")).to_have_count(1)
    await expect(drawing.locator("img")).to_have_count(0)
    for _ in range(2):  # as it happened, and opened again
        async with page.expect_download() as download:
            await chart.locator("a").click()
        assert (await (await download.value).path()).read_bytes() == PNG
        await page.reload()
        await expect(media).to_have_count(4)
        await expect(media.first.locator("img")).to_be_visible()
        await expect(media.locator("audio")).to_have_count(1)


async def test_what_a_model_thinks_is_folded_away(page: Page) -> None:
    await say(page, "ponder this")
    await expect(page.locator(".prose")).to_have_text("Done.")
    thoughts = page.locator(".thinking-text")
    await expect(thoughts).to_be_hidden()
    await page.locator(".thinking summary").click()
    await expect(thoughts).to_have_text("First this, <i>then</i> that.")
    await same_when_opened_again(page)
    await expect(thoughts).to_have_text("First this, <i>then</i> that.")


async def same_when_opened_again(page: Page) -> None:
    """The agent's last message has the same parts and words after a reload, folded ones included."""
    shape = """all => [...all.at(-1).children].map(one => `${one.className} ${one.textContent}`)"""
    answer = page.locator(".message.agent")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    before = await answer.evaluate_all(shape)
    await page.reload()
    await expect(answer.last.locator(".message-foot")).to_have_count(1)
    assert await answer.evaluate_all(shape) == before


async def test_another_agent_is_chosen_and_has_chats_of_its_own(page: Page) -> None:
    await page.get_by_label("Agent").select_option("Research")
    await expect(page.locator(".welcome")).to_contain_text("Research")
    await say(page, "for the researcher")
    assert "/chat/research/" in page.url
    await expect(page.locator(".session").first).to_contain_text("research")
    await page.get_by_role("button", name="New chat").click()
    await expect(page.locator(".welcome")).to_contain_text("Research")


async def test_what_fails_is_told_in_the_conversation(page: Page) -> None:
    await say(page, "please refuse")
    await expect(page.locator(".note.error")).to_contain_text("wrong key")


async def test_dropped_pasted_and_picked_files_go_with_the_message(site: Site, page: Page) -> None:
    make = """({ data, kind }) => {
      const bytes = Uint8Array.from(atob(data), (c) => c.charCodeAt(0));
      const transfer = new DataTransfer();
      transfer.items.add(new File([bytes], `${kind}.png`, { type: "image/png" }));
      const name = kind === "paste" ? "clipboardData" : "dataTransfer";
      const where = document.querySelector(kind === "paste" ? "textarea" : ".chat");
      const event = kind === "paste" ? ClipboardEvent : DragEvent;
      where.dispatchEvent(new event(kind, { [name]: transfer, bubbles: true, cancelable: true }));
    }"""
    data = base64.b64encode(PNG).decode()
    for kind in ("drop", "paste"):
        await page.evaluate(make, {"data": data, "kind": kind})
        await expect(page.locator(f".attachment img[alt='{kind}.png']")).to_be_visible()
    await page.locator("input[type=file]").set_input_files(
        [
            {"name": "notes.md", "mimeType": "", "buffer": b"# Buy milk"},
            {"name": "program.exe", "mimeType": "application/x-msdownload", "buffer": b"MZ"},
        ]
    )
    await expect(page.locator(".toast")).to_contain_text("program.exe")
    await page.get_by_role("button", name="Remove paste.png").click()
    await expect(page.locator(".attachment")).to_have_count(2)
    await say(page, "Look at these")
    asked = site.model.requests[-1].body["messages"][-1]["content"]
    images = [part["image_url"]["url"] for part in asked if part["type"] == "image_url"]
    assert images == [f"data:image/png;base64,{data}"]
    assert "Buy milk" in str(asked)
    await expect(page.locator(".message.user img[alt='drop.png']")).to_be_visible()
    await expect(page.locator(".message.user .file-name")).to_have_text("notes.md")
    await expect(page.locator(".attachment")).to_have_count(0)


async def test_nothing_that_a_model_a_tool_or_a_title_says_is_run_or_loaded(page: Page) -> None:
    await say(page, "attack <img src=x onerror=window.pwned=13>")
    prose = page.locator(".prose")
    await expect(prose).to_contain_text("<script>window.pwned = 1</script>")
    assert (
        await prose.locator("script, img, svg:not(.icon), iframe, [onerror], [onload]").count() == 0
    )
    links = await prose.locator("a").evaluate_all("all => all.map((a) => [a.href, a.rel])")
    assert links == [
        ["https://tracker.example/pixel.png", "noopener noreferrer nofollow"],
        ["https://good.example/", "noopener noreferrer nofollow"],
    ]
    await expect(page.locator(".session-title").first).to_contain_text("<img src=x")
    await page.get_by_role("link", name="MCP servers").click()
    card = page.locator(".server").filter(has_text="kit")
    await card.locator(".tools-fold > summary").click()
    await card.locator(".tool").first.wait_for()
    for tool in await card.locator(".tool > summary").all():
        await tool.click()
    await expect(card).to_contain_text("onerror='window.pwned=10'")
    assert await card.locator("script, img, [onerror], [onclick]").count() == 0


async def test_conversations_are_listed_opened_found_and_deleted(page: Page) -> None:
    await say(page, "first of alpha weather")
    await page.get_by_role("button", name="New chat").click()
    await expect(page.locator(".welcome")).to_be_visible()
    await say(page, "first of beta")
    await page.reload()
    await expect(page.locator(".prose")).to_have_text("You said: first of beta")
    await expect(page.locator(".session[aria-current] .session-title")).to_have_text(
        "first of beta"
    )
    await page.get_by_role("searchbox").fill("alpha")
    await expect(page.locator(".session")).to_have_count(1)
    await page.locator(".session").click()
    await expect(page.locator(".call")).to_have_attribute("data-state", "done")
    await expect(page.locator(".bubble")).to_have_text("first of alpha weather")
    await expect(page.get_by_role("heading", level=1)).to_have_text("first of alpha weather")
    result = page.locator(".call-result")
    await page.locator(".call > summary").click()
    await expect(result).to_contain_text("<u>Lisbon</u>")
    await expect(result).not_to_contain_text("UNTRUSTED")
    await page.get_by_role("button", name="Delete first of alpha").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect(page.locator(".bubble")).to_have_count(1)
    await page.get_by_role("button", name="Delete first of alpha").click()
    await page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    await expect(page.locator(".session-state")).to_have_text("No chats match.")
    await expect(page.locator(".welcome")).to_be_visible()


async def test_a_conversation_goes_on_while_another_is_looked_at(page: Page) -> None:
    await page.get_by_role("textbox", name="Message").fill("hang, please")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await page.get_by_role("button", name="New chat").click()
    await say(page, "something else")
    await page.locator(".session").filter(has_text="hang, please").first.click()
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await page.keyboard.press("Escape")
    await expect(page.locator(".note")).to_have_text("Stopped.")


async def test_what_another_client_says_in_the_open_session_appears(site: Site, page: Page) -> None:
    await say(page, "mine")
    key = page.url.rpartition("/")[2]
    await posted(site, "theirs", key)
    await expect(page.locator(".bubble")).to_have_text(["mine", "theirs"])
    await expect(page.locator(".prose").last).to_have_text("You said: theirs")


async def test_a_chat_that_is_being_clicked_opens_even_if_the_list_changes(
    site: Site, page: Page
) -> None:
    await say(page, "click here")
    item = page.locator(".session").filter(has_text="click here").first
    await page.get_by_role("button", name="New chat").click()
    await expect(item).not_to_have_attribute("aria-current", "true")
    await item.hover()
    await page.mouse.down()
    async with page.expect_response(lambda one: "/api/sessions?" in one.url) as listed:
        await posted(site, "of yet another", "click-elsewhere")
    await (await listed.value).finished()
    await page.mouse.up()
    await expect(page.locator(".bubble")).to_have_text("click here")
    await expect(page.locator(".session-title").first).to_have_text("of yet another")


async def test_the_focus_stays_in_the_list_of_chats_while_it_changes(
    site: Site, page: Page
) -> None:
    await say(page, "focus here")
    item = page.locator(".session-list > li").filter(has_text="focus here").first
    await item.locator(".delete").focus()
    await posted(site, "of another", "focus-elsewhere")
    await expect(page.locator(".session-title").first).to_have_text("of another")
    await expect(item.locator(".delete")).to_be_focused()


async def test_the_beginning_of_a_long_conversation_is_fetched_on_demand(
    site: Site, page: Page
) -> None:
    async with open_store("file", site.installation.paths, SystemClock()) as store:
        session = await store.open_session("main", "long")
        async with store.acquire_lane(session) as lane:
            for number in range(60):
                message = user_entry(UserItem(f"message {number}"), "api")
                await lane.finish_turn(await lane.begin_turn([message]), Outcome.OK)
    await page.goto(f"{site.url}/#/chat/main/long")
    await expect(page.locator(".bubble").last).to_have_text("message 59")
    await page.get_by_role("button", name="Show earlier messages").click()
    await expect(page.locator(".bubble")).to_have_text([f"message {n}" for n in range(60)])
    await expect(page.get_by_role("button", name="Show earlier messages")).to_be_hidden()


async def test_servers_are_shown_as_they_are_and_restarted(page: Page) -> None:
    await page.get_by_role("link", name="MCP servers").click()
    card = page.locator(".server").filter(has_text="kit")
    await expect(card).to_have_attribute("data-state", "ready")
    broken = page.locator(".server").filter(has_text="broken")
    await expect(broken).to_have_attribute("data-state", "failed")
    await expect(broken.locator(".banner.error")).to_contain_text("exited with code 3")
    await card.locator(".tools-fold > summary").click()
    echo = card.locator(".tool").filter(has_text="mcp_kit_echo")
    await echo.locator("summary").click()
    await expect(echo.locator("pre")).to_contain_text('"properties"')
    await expect(card.locator(".server-command")).to_contain_text("fake_server")
    await card.locator(".server-details > summary").click()
    process = card.locator(".facts div").filter(has_text="Process").locator("dd")
    first = await process.inner_text()
    await card.get_by_role("button", name="Restart").click()
    await page.get_by_role("dialog").get_by_role("button", name="Cancel").click()
    await expect(process).to_have_text(first)
    await card.get_by_role("button", name="Restart").click()
    await page.get_by_role("dialog").get_by_role("button", name="Restart").click()
    await expect(process).not_to_have_text(first)
    await expect(card).to_have_attribute("data-state", "ready")
    second = int(await process.inner_text())
    os.kill(second, signal.SIGKILL)
    await expect(process).not_to_have_text(str(second))
    await expect(card).to_have_attribute("data-state", "ready")
    assert await card.locator(".tools-fold").evaluate("fold => fold.open")


async def test_a_declaration_that_changed_is_shown_and_accepted(site: Site, page: Page) -> None:
    loaded = load_config(None, site.installation.environ(PAGE_TOKEN=TOKEN))
    key = pin_key(effective_agents(loaded.config)["main"].servers["broken"])
    store = PinStore(site.installation.paths.pins)
    store.observe(key, "broken", "python", {"echo": Declaration("1", "Says it again.")})
    store.observe(key, "broken", "python", {"echo": Declaration("2", "<b>Sends</b> it away.")})
    await page.get_by_role("link", name="MCP servers").click()
    box = page.locator(".server").filter(has_text="broken").locator(".pins")
    await box.locator("summary").click()
    await expect(box).to_contain_text("+<b>Sends</b> it away.")
    await box.get_by_role("button", name="Accept").click()
    await page.get_by_role("dialog").get_by_role("button", name="Accept").click()
    await expect(box).to_be_hidden()
    assert store.load()[key].pending == {}


async def test_the_log_is_shown_and_filtered(site: Site, page: Page) -> None:
    line = "12:00:00.000 WARNING openclaw.page: a <b>test</b> line\n    and where it came from\n"
    other = "12:00:01.000 INFO    openclaw.page: another line\n"
    site.installation.paths.gateway_log.parent.mkdir(exist_ok=True)
    with site.installation.paths.gateway_log.open("a") as file:
        file.write(line + other)
    await page.get_by_role("link", name="Logs").click()
    await expect(page.locator(".log-line").last).to_contain_text("another line")
    await page.get_by_label("Lowest level").select_option("warning")
    await expect(page.locator(".log-line").last).to_contain_text("and where it came from")
    await page.get_by_label("Filter the log").fill("no such words")
    await expect(page.locator(".empty")).to_contain_text("Nothing matches")


async def test_it_is_dark_where_the_system_is_and_as_one_chooses(
    site: Site, open_page: OpenPage
) -> None:
    background = "getComputedStyle(document.body).backgroundColor"
    async with open_page(site.url, color_scheme="dark") as page:
        dark = await page.evaluate(background)
        await log_in(page)
        await page.get_by_role("button", name="Theme: system").click()
        light = await page.evaluate(background)
        assert (
            sum(map(int, dark[4:-1].split(", ")))
            < 150
            < 600
            < sum(map(int, light[4:-1].split(", ")))
        )
        await page.reload()
        await expect(page.get_by_role("button", name="Theme: light")).to_be_visible()
        assert await page.evaluate(background) == light


async def test_a_phone_shows_everything_without_scrolling_sideways(
    site: Site, open_page: OpenPage
) -> None:
    options = {"viewport": {"width": 360, "height": 640}, "is_mobile": True, "has_touch": True}
    async with open_page(site.url, **options) as page:
        await log_in(page)
        menu = page.get_by_role("button", name="Menu", exact=True)

        async def fits() -> None:
            widths = (
                "[document.documentElement.scrollWidth, document.querySelector('main').scrollWidth]"
            )
            assert await page.evaluate(widths) == [360, 360]

        await say(page, f"something wide {'z' * 300}")
        await expect(page.locator(".code-block")).to_be_visible()
        await fits()
        assert await page.evaluate("document.querySelector('.scroller').scrollWidth") == 360
        for name in ("MCP servers", "Logs"):
            await expect(page.get_by_role("link", name=name)).to_be_hidden()
            await menu.click()
            await page.get_by_role("link", name=name).click()
            await expect(page.get_by_role("heading", level=1)).to_have_text(name)
            await fits()
        await menu.click()
        await expect(page.get_by_role("button", name="Close the menu")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("link", name="Logs")).to_be_hidden()
        await expect(menu).to_be_focused()


async def test_the_keyboard_alone_is_enough(site: Site, open_page: OpenPage) -> None:
    async with open_page(site.url) as page:
        await expect(page.get_by_label("Gateway token")).to_be_focused()
        await page.keyboard.type(TOKEN)
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await page.keyboard.type("one")
        await page.keyboard.press("Shift+Enter")
        await page.keyboard.type("two")
        await page.keyboard.press("Enter")
        await expect(page.locator(".bubble")).to_have_text("one\ntwo")
        await expect(page.get_by_role("button", name="Send")).to_be_visible()
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        await page.keyboard.type("hang now")
        await page.keyboard.press("Enter")
        await page.get_by_role("button", name="Stop").wait_for()
        await page.keyboard.press("Escape")
        await expect(page.locator(".note")).to_have_text("Stopped.")
        await page.keyboard.press("Control+k")
        await expect(page.get_by_role("searchbox")).to_be_focused()
        await page.keyboard.press("Tab")
        await expect(page.locator(".session").first).to_be_focused()
        outline = "getComputedStyle(document.activeElement).outlineStyle"
        assert await page.evaluate(outline) == "solid"
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("dialog")).to_be_visible()
        await page.keyboard.press("Escape")
        await expect(page.get_by_role("dialog")).to_have_count(0)
        await page.get_by_role("link", name="Logs").focus()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("heading", level=1)).to_be_focused()


async def test_a_one_time_link_logs_in_and_a_lost_gateway_is_found_again(
    tmp_path: Path, open_page: OpenPage
) -> None:
    installation = Installation(tmp_path / "state")
    installation.state.mkdir(mode=0o700)
    installation.configure("http://127.0.0.1:9")
    port = await free_port()
    async with installation.process("--port", port) as process:
        url = (await installation.running()).url
        async with httpx2.AsyncClient(base_url=url, headers=installation.headers) as client:
            link = (await client.post("/api/login/links", json={})).json()["url"]
        async with open_page(link) as page:
            connection = page.locator(".connection")
            await expect(connection).to_have_text("Connected")
            process.terminate()
            await process.wait()
            await expect(connection).to_contain_text("lost")
            await page.get_by_role("textbox", name="Message").fill("are you there?")
            await page.keyboard.press("Enter")
            await expect(page.locator(".note.error")).to_contain_text("Cannot reach")
            await expect(page.get_by_role("textbox", name="Message")).to_have_value(
                "are you there?"
            )
            async with installation.process("--port", port):
                await expect(connection).to_have_text("Connected")


async def test_markdown_becomes_what_it_means_and_takes_no_more_than_linear_time(
    page: Page,
) -> None:
    render = """async (text) => {
      const { render } = await import("/markdown.js");
      const box = document.createElement("div");
      const began = performance.now();
      box.append(render(text));
      return [box.innerHTML.replaceAll(' dir="auto"', ""), performance.now() - began];
    }"""
    for text, wanted in (
        (
            "a *b* __c__ `d*e*` ~~f~~",
            "<p>a <em>b</em> <strong>c</strong> <code>d*e*</code> <del>f</del></p>",
        ),
        ("snake_case_name 2 * 3 * 4", "<p>snake_case_name 2 * 3 * 4</p>"),
        ("**a *b* c**", "<p><strong>a <em>b</em> c</strong></p>"),
        ("# A\nb\n***", "<h3>A</h3><p>b</p><hr>"),
        ("- a\n  1. b\n- c", "<ul><li>a<ol><li>b</li></ol></li><li>c</li></ul>"),
        ("3. a\n4. b", '<ol start="3"><li>a</li><li>b</li></ol>'),
        ("> a\n> - b", "<blockquote><p>a</p><ul><li>b</li></ul></blockquote>"),
        ("<b>&amp;\\*", "<p>&lt;b&gt;&amp;amp;*</p>"),
    ):
        html, _ = await page.evaluate(render, text)
        assert html == wanted, text
    for hard in (
        "*a " * 50_000,
        "[" * 50_000,
        "`" * 50_000,
        "> " * 5_000,
        "_a_ " * 30_000,
        "- " * 5_000,
    ):
        _, spent = await page.evaluate(render, hard)
        assert spent < 4000, hard[:10]


async def posted(site: Site, text: str, key: str) -> None:
    headers = {"authorization": f"Bearer {TOKEN}"}
    async with httpx2.AsyncClient(base_url=site.url, headers=headers, trust_env=False) as client:
        body = {"text": text, "sessionKey": key, "agent": "main"}
        async with client.stream("POST", "/api/messages", json=body, timeout=60) as answer:
            assert "event: reply" in "".join([piece async for piece in answer.aiter_text()])


async def free_port() -> str:
    async with await create_tcp_listener(local_host="127.0.0.1") as listener:
        return str(listener.extra(SocketAttribute.local_port))


async def test_a_turn_goes_on_without_the_page_and_is_shown_when_it_is_opened_again(
    site: Site, page: Page
) -> None:
    box = page.get_by_role("textbox", name="Message")
    await box.fill("long, please")
    await page.keyboard.press("Enter")
    await expect(page.locator(".prose")).to_contain_text("word 3 ")
    await page.reload()
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await expect(page.locator(".bubble")).to_have_text("long, please")
    prose = page.locator(".prose")
    await expect(prose).to_contain_text("word 3 ")
    first = await prose.inner_text()
    await expect(prose).not_to_have_text(first)
    assert (await prose.inner_text()).startswith(first)
    await page.get_by_role("button", name="Stop").click()
    await expect(page.locator(".note")).to_have_text("Stopped.")
    await expect(page.get_by_role("button", name="Send")).to_be_visible()
    await expect(page.locator(".bubble")).to_have_count(1)


async def test_a_turn_of_a_closed_page_ends_by_itself_and_is_there_later(
    site: Site, open_page: OpenPage
) -> None:
    async with open_page(site.url, token=TOKEN) as page:
        await page.get_by_role("textbox", name="Message").fill("what about the weather?")
        await page.keyboard.press("Enter")
        await expect(page.locator(".call")).to_have_count(1)
        where = page.url
    async with open_page(where, token=TOKEN) as later:
        await expect(later.locator(".prose").last).to_contain_text("and dry.")
        await expect(later.locator(".call")).to_have_attribute("data-state", "done")
        await expect(later.get_by_role("button", name="Send")).to_be_visible()
        await expect(later.locator(".bubble")).to_have_count(1)


async def test_what_another_client_does_in_the_open_session_is_shown_as_it_happens(
    site: Site, page: Page
) -> None:
    await say(page, "mine")
    key = page.url.rpartition("/")[2]
    headers = {"authorization": f"Bearer {TOKEN}", "x-openclaw-session-key": key}
    body = {"model": "openclaw", "messages": [{"role": "user", "content": "long, of another"}]}
    async with (
        httpx2.AsyncClient(base_url=site.url, headers=headers, trust_env=False) as client,
        create_task_group() as group,
    ):

        async def ask() -> None:
            with suppress(httpx2.HTTPError):
                await client.post("/v1/chat/completions", json=body, timeout=60)

        group.start_soon(ask)
        await expect(page.locator(".bubble")).to_have_text(["mine", "long, of another"])
        prose = page.locator(".prose").last
        await expect(prose).to_contain_text("word 3 ")
        first = await prose.inner_text()
        await expect(prose).not_to_have_text(first)
        await page.get_by_role("button", name="Stop").click()
        await expect(page.locator(".note")).to_have_text("Stopped.")
    await expect(page.locator(".bubble")).to_have_count(2)


async def test_what_an_mcp_server_asks_is_answered_on_the_page(page: Page) -> None:
    await page.get_by_role("textbox", name="Message").fill("a question, please")
    await page.keyboard.press("Enter")
    question = page.get_by_role("form", name="Question")
    await expect(question).to_contain_text("The MCP server kit asks: Which <b>colour</b>?")
    await question.get_by_label("colour").select_option("green")
    await question.get_by_role("button", name="Send").click()
    await expect(question.get_by_role("button", name="Send")).to_be_visible()  # a number is missing
    await page.reload()
    await question.get_by_label("colour").select_option("green")
    await question.get_by_label("count").fill("3")
    await question.get_by_label("sure").check()
    await question.get_by_role("button", name="Send").click()
    await expect(question).to_have_count(0)
    await expect(page.locator(".record")).to_contain_text("Answered")
    prose = page.locator(".prose").last
    for part in ("accept", "green", "3", "true"):
        await expect(prose).to_contain_text(part)
    await expect(page.locator(".call + .record pre")).to_have_text(
        "colour: green\ncount: 3\nsure: true"
    )
    await same_when_opened_again(page)


async def test_a_call_is_shown_whole_and_a_click_that_comes_too_soon_does_not_count(
    site: Site, page: Page
) -> None:
    written = site.installation.state / "workspace" / "c.sh"
    await page.evaluate(
        """() => new MutationObserver((_, observer) => {
            const allow = document.querySelector("form.question button.primary");
            if (!allow) return;
            observer.disconnect();
            allow.click();
            allow.form.requestSubmit();
            window.clickedAtOnce = true;
        }).observe(document.body, { childList: true, subtree: true })"""
    )
    await page.get_by_role("textbox", name="Message").fill("disguised")
    await page.keyboard.press("Enter")
    question = page.get_by_role("form", name="Question").last
    allow = question.get_by_role("button", name="Allow once")
    await expect(allow).to_be_enabled()
    assert await page.evaluate("window.clickedAtOnce")
    assert not written.exists()
    shown = await question.locator("pre").text_content()
    lines = disguised_call.BODY.split("\n")[2:]
    assert shown == "\n".join(["path: c.sh", "content:", f"+ {'x' * 30_000}", *lines])
    await allow.click()
    await expect(page.locator(".call-approval")).to_have_text("allowed once")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    assert written.read_text() == DISGUISED


async def test_a_tool_that_needs_permission_is_asked_about(site: Site, page: Page) -> None:
    written = site.installation.state / "workspace" / "a.txt"
    session = "In this session: every call of write"
    for key, said in (
        ("Enter", "not allowed: use another file"),
        ("No", "not allowed"),
        ("Allow once", "allowed once"),
        (session, "allowed in this session"),
    ):
        await page.get_by_role("textbox", name="Message").fill("with permission")
        await page.keyboard.press("Enter")
        question = page.get_by_role("form", name="Question").last
        await expect(question).to_contain_text("a.txt?")
        await expect(question.get_by_role("button", name="No", exact=True)).to_be_enabled()
        if key == "Enter":
            await question.get_by_label("Reason for refusing").fill("use another file")
            await page.keyboard.press("Enter")
        else:
            await question.get_by_role("button", name=key, exact=True).click()
        await expect(page.locator(".call-approval").last).to_have_text(said)
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        assert written.exists() is said.startswith("allowed")
    assert written.read_text() == "b"


ASKS = """async ([url, token]) => {
  const headers = { authorization: `Bearer ${token}`, "content-type": "application/json" };
  const messages = [{ role: "user", content: "hi" }];
  const body = JSON.stringify({ model: "openclaw", messages });
  try {
    const answer = await fetch(`${url}/v1/chat/completions`, { method: "POST", headers, body });
    return (await answer.json()).choices[0].message.content;
  } catch (error) { return error.name; }
}"""


async def test_a_page_of_another_origin_may_ask_only_if_the_configuration_names_it(
    tmp_path: Path, browser: Browser
) -> None:
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    installation = Installation(state)
    with ExitStack() as stack:
        friend, stranger = (stack.enter_context(other_site()) for _ in range(2))
        async with scripted_model(default=Step(text="Hello.")) as model:
            installation.configure(model.url, gateway={"allowedOrigins": [friend]})
            async with installation.here() as info:
                page = await browser.new_page()
                answers: list[str] = []
                for origin in (friend, stranger):
                    await page.goto(origin)
                    answers.append(await page.evaluate(ASKS, [info.url, installation.token]))
                await page.close()
    assert answers == ["Hello.", "TypeError"]


@contextmanager
def other_site() -> Generator[str]:
    """An empty page at an origin of its own."""

    class Empty(QuietHandler):
        def do_GET(self) -> None:
            self.reply(b"", kind="text/html")

    with serving(Empty) as url:
        yield url
