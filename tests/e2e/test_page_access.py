"""The page for everybody: keyboard, screen reader, contrast, touch and calm."""

from collections.abc import Awaitable, Callable

import pytest
from playwright.async_api import Page, expect
from tests.e2e import test_page
from tests.e2e.test_page import OpenPage, Site
from tests.support.page_kit import CHROMIUM, TOKEN, say, send

site, browser, open_page = test_page.site, test_page.browser, test_page.open_page
pytestmark = [
    pytest.mark.anyio,
    pytest.mark.skipif(not CHROMIUM, reason="no Chromium here"),
]
PHONE = {"viewport": {"width": 390, "height": 844}, "is_mobile": True, "has_touch": True}
RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
CHECK = """async (tags) => {
  const { violations } = await axe.run(document, { runOnly: tags });
  return violations.flatMap(({ id, nodes }) =>
    nodes.map((one) => `${id}: ${one.target.join(" ")}: ${one.failureSummary}`));
}"""


async def view(page: Page, name: str) -> None:
    await expect(page.get_by_role("heading", level=1)).to_be_visible()
    menu = page.get_by_role("button", name="Menu", exact=True)
    if await menu.is_visible():
        await menu.click()
    await page.get_by_role("link", name=name).click()
    await expect(page.get_by_role("heading", level=1)).to_have_text(name)


async def chat(page: Page) -> None:
    await say(page, "What about the weather?")
    await page.locator(".call > summary").click()
    await say(page, "ponder a wide thing, and attack")
    await say(page, "please refuse")


async def approval(page: Page) -> None:
    await send(page, "with permission")
    await expect(page.get_by_role("button", name="Allow once")).to_be_enabled()


async def approved(page: Page) -> None:
    await approval(page)
    await page.get_by_role("button", name="Allow once").click()
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await expect(page.locator(".call pre")).to_be_visible()


async def elicitation(page: Page) -> None:
    await send(page, "a question, please")
    send_button = page.get_by_role("form", name="Question").get_by_role("button", name="Send")
    await expect(send_button).to_be_enabled()


async def queue(page: Page) -> None:
    await send(page, "hang, please")
    await expect(page.get_by_role("button", name="Stop")).to_be_visible()
    await send(page, "and this later")


async def options(page: Page) -> None:
    await say(page, "hello")
    await page.locator(".options summary").click()


async def servers(page: Page) -> None:
    await view(page, "MCP servers")
    await page.locator(".server").filter(has_text="kit").locator(".tools-fold > summary").click()
    await expect(page.locator(".tool").first).to_be_visible()


async def server_form(page: Page) -> None:
    await view(page, "MCP servers")
    await page.get_by_role("button", name="Add", exact=True).click()
    await page.get_by_role("button", name="Add another").click()


async def change(page: Page) -> None:
    await view(page, "MCP servers")
    await page.get_by_role("button", name="Disable kit").click()
    await expect(page.get_by_role("button", name="Apply")).to_be_visible()


async def jobs(page: Page) -> None:
    await view(page, "Jobs and tasks")
    await page.get_by_role("button", name="Add a job").click()


async def usage(page: Page) -> None:
    await say(page, "hello")
    await view(page, "Usage")
    await expect(page.get_by_role("heading", name="By day")).to_be_visible()


async def settings(page: Page) -> None:
    await view(page, "Settings")
    await expect(page.get_by_role("button", name="Add a secret")).to_be_visible()


async def logs(page: Page) -> None:
    await view(page, "Logs")


async def new_chat(page: Page) -> None:
    await expect(page.locator(".welcome")).to_be_visible()


async def suggestions(page: Page) -> None:
    await page.get_by_role("textbox", name="Message").press_sequentially("/kit")
    await page.get_by_role("listbox", name="Suggestions").wait_for()
    await page.keyboard.press("ArrowDown")


STATES: list[Callable[[Page], Awaitable[None]]] = [
    new_chat, chat, suggestions, approval, approved, elicitation, queue, options, servers, server_form, change,
    jobs, usage, settings, logs,
]  # fmt: skip


async def checked(page: Page, axe: str) -> list[str]:
    await page.evaluate(axe)
    found: list[str] = await page.evaluate(CHECK, RULES)
    return found


async def stop(page: Page) -> None:
    """End what runs, so that the next test does not find it."""
    for button in await page.get_by_role("button", name="Stop", exact=True).all():
        await button.click()


@pytest.mark.parametrize("state", STATES)
async def test_nothing_breaks_a_rule_of_accessibility(
    site: Site, open_page: OpenPage, axe: str, state: Callable[[Page], Awaitable[None]]
) -> None:
    options = {**PHONE, "color_scheme": "dark", "bypass_csp": True, "reduced_motion": "reduce"}
    async with open_page(site.url, TOKEN, **options) as page:
        await state(page)
        found = await checked(page, axe) + await page.evaluate(SMALL)
        await page.emulate_media(color_scheme="light", reduced_motion="reduce")
        await page.set_viewport_size({"width": 1280, "height": 800})
        found += await checked(page, axe)
        await stop(page)
    assert found == []


# Links within a sentence, and what only repeats what a larger thing does, may be smaller.
SMALL = """() => [...document.querySelectorAll("button, summary, select, input, a.button, .nav-link, textarea")]
  .filter((one) => one.checkVisibility({ opacityProperty: true, visibilityProperty: true }) && !one.closest("[inert]"))
  .map((one) => [one, (one.type === "checkbox" ? one.closest("label") ?? one : one).getBoundingClientRect()])
  .filter(([one, box]) => box.width && box.right > 0 && (box.height < 43.5 || (box.width < 43.5 && one.type !== "checkbox")) && !one.disabled)
  .map(([one, box]) => `too small: ${one.className || one.tagName} ${one.textContent.slice(0, 30)} ${box.width}x${box.height}`)"""


async def test_the_login_breaks_no_rule_of_accessibility(
    site: Site, open_page: OpenPage, axe: str
) -> None:
    async with open_page(site.url, bypass_csp=True) as page:
        await expect(page.get_by_label("Gateway token")).to_be_focused()
        assert await checked(page, axe) == []


async def test_a_question_is_answered_with_the_keyboard_alone(
    site: Site, open_page: OpenPage
) -> None:
    written = site.installation.state / "workspace" / "a.txt"
    written.unlink(missing_ok=True)
    async with open_page(site.url, TOKEN) as page:
        await approval(page)
        await expect(page.get_by_role("textbox", name="Message")).to_be_focused()
        for _ in range(12):
            await page.keyboard.press("Shift+Tab")
            if await page.evaluate("document.activeElement.textContent") == "Allow once":
                break
        await expect(page.get_by_role("button", name="Allow once")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.locator(".call-approval")).to_have_text("allowed once")
        await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    assert written.read_text() == "b"


async def test_the_options_of_a_chat_open_and_close_with_the_keyboard(
    site: Site, open_page: OpenPage
) -> None:
    async with open_page(site.url, TOKEN) as page:
        await say(page, "hello")
        summary = page.locator(".options summary")
        await summary.focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Rename")).to_be_focused()
        await page.keyboard.press("Escape")
        await expect(summary).to_be_focused()
        await expect(page.get_by_role("button", name="Rename")).to_be_hidden()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await expect(page.get_by_label("Title")).to_be_focused()


async def test_nothing_moves_for_those_who_asked_for_calm(site: Site, open_page: OpenPage) -> None:
    moving = "document.getAnimations().filter((one) => one.playState === 'running').length"
    async with open_page(site.url, TOKEN, reduced_motion="reduce") as page:
        await queue(page)
        assert await page.evaluate(moving) == 0
        await page.emulate_media(reduced_motion="no-preference")
        assert await page.evaluate(moving) > 0
        await stop(page)
