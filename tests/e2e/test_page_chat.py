"""What one can do with a conversation on the page: queue, edit, ask again, rename, export, undo."""

import json
import re
from pathlib import Path

import anyio
import pytest
from playwright.async_api import Page, Route, expect
from tests.e2e import test_page
from tests.e2e.test_page import OpenPage, Site
from tests.support.mcp_server_kit import until
from tests.support.page_kit import CHROMIUM, TOKEN, say, send

site, browser, open_page, page = (
    test_page.site,
    test_page.browser,
    test_page.open_page,
    test_page.page,
)
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium here"),
]


async def test_what_is_written_during_a_turn_is_sent_after_it(page: Page) -> None:
    await send(page, "steady, please")
    await expect(page.locator(".prose")).to_contain_text("step 2")
    for text in ("next one", "not this one", "last one"):
        await send(page, text)
    queue = page.get_by_role("list", name="Queued messages").get_by_role("listitem")
    await expect(queue).to_have_text(["next one", "not this one", "last one"])
    await queue.nth(1).get_by_role("button", name="Don't send this message").click()
    await expect(page.locator(".prose").last).to_have_text("You said: last one")
    await expect(page.locator(".bubble")).to_have_text(["steady, please", "next one", "last one"])
    await expect(queue).to_have_count(0)


async def test_what_was_queued_comes_back_if_the_turn_is_stopped(page: Page) -> None:
    await send(page, "hang, please")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await send(page, "and then this")
    await page.keyboard.press("Escape")
    await expect(page.locator(".note")).to_have_text("Stopped.")
    await expect(page.get_by_role("textbox", name="Message")).to_have_value("and then this")
    await expect(page.locator(".bubble")).to_have_count(1)


async def test_a_turn_that_is_stopped_before_the_gateway_has_it_does_not_run(page: Page) -> None:
    stopped = anyio.Event()

    async def deliver(route: Route) -> None:
        await stopped.wait()
        await route.continue_()

    await page.route("**/api/messages", deliver)
    await send(page, "hang, please")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await page.keyboard.press("Escape")
    stopped.set()
    await expect(page.locator(".note")).to_have_text("Stopped.")
    await expect(page.locator(".bubble")).to_have_text("hang, please")  # the gateway had it
    await page.reload()
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()


async def test_prompts_and_their_arguments_are_completed(page: Page) -> None:
    box = page.get_by_role("textbox", name="Message")
    options = page.get_by_role("listbox", name="Suggestions").get_by_role("option")
    await box.press_sequentially("/ki")
    await expect(options).to_have_text([f"/kit:greet{test_page.PROMPT['description']}"])
    await box.press("Tab")
    await expect(box).to_have_value("/kit:greet ")
    await expect(options).to_have_text(["who=whom", "tone="])
    await box.press("ArrowDown")
    await expect(options.first).to_have_attribute("aria-selected", "true")
    await box.press("Enter")
    await expect(box).to_have_value("/kit:greet who=")
    await expect(options).to_have_text(["Anna", "Anna Maria", "<b>Bob</b>"])
    await box.press("ArrowUp")
    await box.press("ArrowUp")
    await box.press("Enter")
    await expect(box).to_have_value('/kit:greet who="Anna Maria"')
    await expect(options).to_have_count(0)
    await box.press_sequentially(" ")
    await options.filter(has_text="tone=").click()
    await expect(box).to_have_value('/kit:greet who="Anna Maria" tone=')
    await box.press_sequentially("warmly")
    await box.press("Enter")
    await expect(page.locator(".prose").last).to_contain_text("Greet Anna Maria, warmly.")


async def test_suggestions_go_with_escape_and_stop_no_turn(page: Page) -> None:
    await send(page, "hang, please")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    box = page.get_by_role("textbox", name="Message")
    await box.press_sequentially("/kit")
    listbox = page.get_by_role("listbox", name="Suggestions")
    await expect(listbox).to_be_visible()
    await box.press("Escape")
    await expect(listbox).to_be_hidden()
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await box.fill("nothing of that kind")
    await page.keyboard.press("Escape")
    await expect(page.locator(".note")).to_have_text("Stopped.")


async def test_an_earlier_message_is_edited_in_a_copy_of_the_chat(page: Page) -> None:
    await say(page, "alpha edit")
    await say(page, "beta edit")
    original = page.url
    first = page.locator(".message.user").first
    await first.hover()
    await first.get_by_role("button", name="Edit and ask again").click()
    box = page.get_by_role("textbox", name="Message")
    await expect(box).to_have_value("alpha edit")
    await expect(page.locator(".composer-banner")).to_contain_text("a copy of this chat")
    await page.get_by_role("button", name="Cancel editing").click()
    await expect(box).to_have_value("")
    await page.locator(".message.user").nth(1).hover()
    await page.get_by_role("button", name="Edit and ask again").nth(1).click()
    await say(page, "gamma edit")
    await expect(page.locator(".bubble")).to_have_text(["alpha edit", "gamma edit"])
    await expect(page.locator(".prose").last).to_have_text("You said: gamma edit")
    assert page.url != original
    await page.reload()
    await expect(page.locator(".bubble")).to_have_text(["alpha edit", "gamma edit"])
    await page.goto(original)
    await expect(page.locator(".bubble")).to_have_text(["alpha edit", "beta edit"])


async def test_an_answer_is_asked_for_again_with_what_came_with_the_message(
    site: Site, page: Page
) -> None:
    await page.locator("input[type=file]").set_input_files(
        [{"name": "dot.png", "mimeType": "image/png", "buffer": test_page.PNG}]
    )
    await say(page, "look again")
    for _ in range(2):  # once with the page's own files, once with those of the transcript
        before = page.url
        answer = page.locator(".message.agent").last
        await answer.hover()
        await answer.get_by_role("button", name="Answer again").click()
        await expect(page).not_to_have_url(before)
        await expect(page.locator(".prose")).to_have_count(1)
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        await expect(page.locator(".bubble")).to_have_text(["look again"])
        parts = site.model.requests[-1].body["messages"][-1]["content"]
        assert [part["type"] for part in parts].count("image_url") == 1
        await page.reload()
        await expect(page.locator(".message.user img[alt='dot.png']")).to_be_visible()


async def test_a_failed_turn_can_be_tried_again(page: Page) -> None:
    await say(page, "please refuse")
    for count in (2, 3):
        await page.get_by_role("button", name="Retry").last.click()
        await expect(page.locator(".note.error")).to_have_count(count)
        await expect(page.locator(".bubble")).to_have_text(["please refuse"] * count)
        await page.reload()
        await expect(page.locator(".note.error")).to_have_count(count)


async def test_an_answer_and_a_message_are_copied_as_they_were_written(
    site: Site, open_page: OpenPage
) -> None:
    async with open_page(
        site.url, TOKEN, permissions=["clipboard-read", "clipboard-write"]
    ) as page:
        await say(page, "copy the **weather**")
        read = "navigator.clipboard.readText()"
        for where, text in (
            (".message.user", "copy the **weather**"),
            (".message.agent", "**mild**"),
        ):
            await page.locator(where).hover()
            await page.locator(where).get_by_role("button", name="Copy").last.click()
            await expect(page.locator("#announcer")).to_have_text("Copied")
            assert text in await page.evaluate(read)


async def test_a_chat_is_renamed_and_exported(site: Site, page: Page) -> None:
    await say(page, "## Tell me about the *weather* in `Lisbon`")
    title = "Tell me about the weather in Lisbon"
    await expect(page.get_by_role("heading", level=1)).to_have_text(title)
    await expect(page.locator(".session-title").first).to_have_text(title)
    await expect(page).to_have_title(f"{title} · OpenClaw")
    options = page.locator(".options summary")
    await options.click()
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Export as Markdown").click()
    exported = await download.value
    assert exported.suggested_filename == "Tell-me-about-the-weather-in-Lisbon.md"
    text = Path(await exported.path()).read_text()
    for part in (f"# {title}", "**MCP: kit/echo**", "<u>Lisbon</u>", "It is **mild**"):
        assert part in text
    assert "UNTRUSTED" not in text
    await options.click()
    async with page.expect_download() as download:
        await page.get_by_role("button", name="Export as JSON").click()
    kinds = [
        one["kind"]
        for one in json.loads(Path(await (await download.value).path()).read_text())["entries"]
    ]
    assert {"user_message", "tool_call", "tool_result", "assistant_message"} <= set(kinds)
    await options.click()
    await page.get_by_role("button", name="Rename").click()
    await page.get_by_label("Title").fill("Dry days")
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("heading", level=1)).to_have_text("Dry days")
    await page.reload()
    await expect(page.get_by_role("heading", level=1)).to_have_text("Dry days")
    await expect(page.locator(".session-title").first).to_have_text("Dry days")


async def test_what_a_turn_did_to_files_is_undone(site: Site, page: Page) -> None:
    written = site.installation.state / "workspace" / "a.txt"
    written.unlink(missing_ok=True)
    await send(page, "with permission")
    await page.get_by_role("button", name="Allow once").click()
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    assert written.exists()
    await page.locator(".options summary").click()
    await page.get_by_role("button", name="Undo file changes").click()
    await expect(page.locator(".prose").last).to_contain_text("a.txt: removed")
    assert not written.exists()
    await say(page, "/redo")
    assert written.read_text() == "b"


async def test_a_conversation_looks_the_same_when_it_is_opened_again(
    site: Site, page: Page
) -> None:
    await say(page, "What about the weather?")
    await send(page, "with permission")
    await page.get_by_role("button", name="Allow once").click()
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await send(page, "with permission again")
    await page.get_by_label("Reason for refusing").fill("not now")
    await expect(page.get_by_role("button", name="No", exact=True)).to_be_enabled()
    await page.keyboard.press("Enter")
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await say(page, "please refuse")
    await send(page, "hang now")
    await until(lambda: "hang now" in site.model.requests[-1].last_text)  # stored since then
    await page.keyboard.press("Escape")
    await expect(page.locator(".note").last).to_have_text("Stopped.")
    await expect(page.locator("[aria-busy]")).to_have_count(0)
    shown = await _log_without_times(page)
    for part in ("allowed once", "not allowed: not now", "MCP: kit/echo", " ms\n", "tokens"):
        assert part in shown
    await page.reload()
    await expect(page.locator(".note").last).to_have_text("Stopped.")
    assert await _log_without_times(page) == shown


async def _log_without_times(page: Page) -> str:
    """The page's clock and the gateway's may be on two sides of a full minute."""
    return re.sub(r"\d\d:\d\d [AP]M", "00:00", await page.locator(".log").inner_text())


async def test_the_tab_and_a_notification_say_that_an_answer_is_needed(
    site: Site, open_page: OpenPage
) -> None:
    async with open_page(site.url, TOKEN) as page:
        await page.evaluate(
            """() => {
              window.told = [];
              window.Notification = class {
                static permission = "granted";
                constructor(title, { body }) { window.told.push(`${title}: ${body}`); }
              };
            }"""
        )
        await send(page, "with permission")
        await expect(page).to_have_title(re.compile("Answer needed"))
        await expect(page.locator(".session-waits").first).to_be_visible()
        assert await page.evaluate("window.told") == []  # the page is in front of the person
        await page.get_by_role("button", name="No", exact=True).click()
        await expect(page).not_to_have_title(re.compile("Answer needed"))
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
        await page.evaluate("Object.defineProperty(document, 'hidden', { get: () => true })")
        await send(page, "with permission")
        await expect(page).to_have_title(re.compile("Answer needed"))
        (told,) = await page.evaluate("window.told")
        assert re.match(r"OpenClaw needs your answer: (Write|Overwrite) a\.txt\?", told)


async def test_a_question_that_waits_is_answered_on_the_page_and_its_chat_goes_on(
    page: Page,
) -> None:
    at, headers = page.url.partition("#")[0], {"authorization": f"Bearer {TOKEN}"}
    order = {"text": "with permission", "stream": False, "sessionKey": "elsewhere"}
    await page.request.post(f"{at}api/messages", data=order, headers=headers)
    link = page.get_by_role("link", name="Questions")
    await expect(link).to_contain_text("1 waiting for your answer")
    await link.click()
    question = page.get_by_role("form", name="Question")
    await expect(question).to_contain_text(re.compile(r"(Write|Overwrite) a\.txt\?"))
    await expect(question.locator("pre")).to_contain_text("path: a.txt")
    await page.get_by_role("link", name="Chat of question").click()
    await expect(page.locator(".conversation")).to_contain_text("Waiting for your answer")
    await question.get_by_role("button", name="Allow once").click()
    await expect(page.locator(".message.agent").last).to_contain_text("You allowed it, once")
    await expect(question).to_have_count(0)
    await expect(link).not_to_contain_text("waiting")


async def test_an_answered_question_becomes_the_card_of_its_call_with_the_diff(
    site: Site, page: Page
) -> None:
    (site.installation.state / "workspace" / "a.txt").unlink(missing_ok=True)
    await send(page, "with permission")
    await page.get_by_role("button", name="Allow once").click()
    card = page.locator(".call")
    await expect(card).to_have_count(1)
    await expect(card.locator(".call-name")).to_have_text("Write a.txt (+1 -0)")
    await expect(card.locator(".call-note")).to_contain_text("allowed once")
    await expect(card.locator("pre")).to_contain_text("+ b")
    await expect(card.locator("summary")).to_be_focused()
    await page.keyboard.press("Enter")
    await expect(card.locator("pre")).to_be_hidden()


async def test_a_chat_works_in_the_folder_that_was_chosen_for_it(
    site: Site, page: Page, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    await page.locator(".folder").click()
    dialog = page.get_by_role("dialog")
    await dialog.get_by_label("Another folder").fill(str(project / "missing"))
    await dialog.get_by_role("button", name="Use this folder").click()
    await expect(dialog).to_contain_text("is not a directory")
    await dialog.get_by_label("Another folder").fill(str(project))
    await dialog.get_by_role("button", name="Use this folder").click()
    await expect(page.locator(".folder")).to_have_text("project")
    await expect(page.locator(".welcome")).to_contain_text(str(project))
    await send(page, "with permission")
    await page.get_by_role("button", name="Allow once").click()
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    assert (project / "a.txt").read_text() == "b"
    await page.reload()
    await expect(page.locator(".folder")).to_have_text("project")
    await send(page, "/diff")
    await expect(dialog).to_contain_text("a.txt (added)")
    await dialog.get_by_role("button", name="Close").click()
    await say(page, "/undo")
    assert not (project / "a.txt").exists()
    await send(page, "/new")
    await expect(page.locator(".folder")).to_have_text("project")
    await page.locator(".folder").click()
    await expect(dialog.get_by_role("radio", name=str(project))).to_be_checked()


async def test_a_slash_lists_the_commands_and_chats_stand_below_their_day(page: Page) -> None:
    await say(page, "What about the weather?")
    await expect(page.locator(".session-list .day")).to_have_text(["Today"])
    await page.get_by_role("textbox", name="Message").press_sequentially("/re")
    await expect(page.get_by_role("option", name="/redo")).to_be_visible()
    await page.get_by_role("textbox", name="Message").fill("")
    await send(page, "/help")
    await expect(page.get_by_role("dialog")).to_contain_text("/compact")


async def test_a_lost_connection_is_said_until_it_is_back(page: Page) -> None:
    async def refuse(route: Route) -> None:
        await route.abort()

    await expect(page.locator(".lost")).to_be_hidden()
    await page.route("**/api/events", refuse)
    await page.reload()
    await expect(page.locator(".lost")).to_contain_text("connection to the gateway is lost")
    await page.unroute("**/api/events")
    await page.get_by_role("button", name="Try now").click()
    await expect(page.locator(".lost")).to_be_hidden()


async def test_the_page_opens_without_the_gateway_once_it_was_open(page: Page) -> None:
    await page.evaluate("navigator.serviceWorker.ready.then(() => true)")
    await page.reload()  # now its files are stored
    await expect(page.get_by_role("textbox", name="Message")).to_be_visible()
    stored = await page.evaluate(
        """async () => {
          const store = await caches.open("openclaw-shell");
          return (await store.keys()).map((one) => new URL(one.url).pathname);
        }"""
    )
    assert {"/", "/app.js", "/chat.js", "/base.css"} <= set(stored)
    assert [one for one in stored if one.startswith("/api/")] == []


async def test_several_of_a_servers_options_can_be_chosen(page: Page) -> None:
    value = await page.evaluate(
        """async () => {
          const { Question } = await import("./questions.js");
          const days = { type: "array", title: "Days", items: { type: "string", enum: ["mon", "tue", "wed"] } };
          const one = new Question({ id: "q", kind: "elicitation", server: "s", text: "Which?", mode: "form",
            schema: { type: "object", properties: { days }, required: ["days"] } });
          const [first, , last] = one.element.querySelectorAll("input[type=checkbox]");
          first.click();
          last.click();
          return one.fields[0].value();
        }"""
    )
    assert value == ["mon", "wed"]


async def test_a_question_is_reached_when_it_is_out_of_sight(page: Page) -> None:
    await say(page, "wide")
    await say(page, "wide again")
    await send(page, "with permission")
    question = page.get_by_role("form", name="Question")
    await expect(question).to_be_in_viewport()
    await page.set_viewport_size({"width": 700, "height": 420})  # as by a phone's keyboard
    await expect(page.get_by_role("button", name="Allow once")).to_be_in_viewport()
    await page.wait_for_function(
        """() => {
          document.querySelector(".scroller").scrollTo(0, 0);
          return !document.querySelector(".asking").hidden;
        }"""
    )
    pointer = page.get_by_role("button", name="Your answer is needed", exact=True)
    await pointer.click()
    await expect(question).to_be_focused()
    await expect(question).to_be_in_viewport()
    await expect(pointer).to_be_hidden()
    await page.get_by_role("button", name="No", exact=True).click()


async def test_code_has_colours_and_stays_what_it_is(page: Page) -> None:
    shown = """async ([text, language]) => {
      const { highlighted } = await import("/highlight.js");
      const box = document.createElement("code");
      const began = performance.now();
      box.append(...highlighted(text, language));
      const spent = performance.now() - began;
      const parts = [...box.querySelectorAll("span")].slice(0, 20);
      return [box.textContent === text, parts.map((one) => [one.className, one.textContent]), spent];
    }"""
    python = '# hi\ndef f(x="a # b"):\n    return 10 or None\n'
    same, parts, _ = await page.evaluate(shown, [python, "python"])
    assert same
    assert parts == [
        ["hl-comment", "# hi"],
        ["hl-word", "def"],
        ["hl-name", "f"],
        ["hl-string", '"a # b"'],
        ["hl-word", "return"],
        ["hl-number", "10"],
        ["hl-word", "or"],
        ["hl-word", "None"],
    ]
    for language in ("c", "sh", "sql", "json", "html", "css", "diff", "unheard-of"):
        for hard in ("/*" * 20_000, '"' * 40_001, "<!--" * 10_000, "a(" * 20_000, "'''\n" * 9_000):
            same, _, spent = await page.evaluate(shown, [hard, language])
            assert same
            assert spent < 4000
