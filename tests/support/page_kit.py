"""The page in a real browser: how it is started, and what a person does there."""

import shutil

from playwright.async_api import Page, expect

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), ""
)
FLAGS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
TOKEN = "page-token-0123456789"


async def send(page: Page, text: str) -> None:
    await page.get_by_role("textbox", name="Message").fill(text)
    await page.keyboard.press("Enter")


async def say(page: Page, text: str) -> None:
    """Send a message and wait until its turn is over."""
    await send(page, text)
    await expect(page.get_by_role("button", name="Send", exact=True)).to_be_visible()
    await expect(page.locator("[aria-busy]")).to_have_count(0)
