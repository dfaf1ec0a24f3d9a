"""Where the daemon wants a token, the page asks for it once, keeps it for the tab, and sends it with every question."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import PodSpec, guaranteed
from tests.browser.chromium import Chromium, Page
from tests.browser.scene import GIB, SMALL, Served, served
from tests.browser.test_plan import ask, pod
from tests.testbed.certificates import self_signed

TOKEN = "0123456789abcdef"
DRAWN = "document.body?.dataset.drawn"
IS_ASKED = "document.querySelector('#sign-in')?.open"


@pytest.fixture(scope="module")
async def guarded(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A node whose address speaks HTTPS and wants a token."""
    directory: Path = tmp_path_factory.mktemp("guarded")
    made = self_signed(directory)
    (directory / "tokens").write_text(f"{TOKEN}\n")
    config = directory / "config.yaml"
    config.write_text(f"httpTLS: {{certificate: {made.certificate}, key: {made.key}, tokenFile: {directory}/tokens}}\n")
    async with served(directory, SMALL, ("--config", str(config))) as found:
        await found.kubelet.run_pod(PodSpec("db-0", (guaranteed("postgres", 2000, memory_bytes=GIB),)))
        yield Served(found.daemon, found.kubelet, found.url.replace("http:", "https:"))


@pytest.fixture
async def page(browser: Chromium, guarded: Served) -> AsyncIterator[Page]:
    """The page, which asks for a token; its console reports refusals of that and nothing else."""
    found = await browser.new_page()
    await found.call("Security.setIgnoreCertificateErrors", ignore=True)  # it is no authority's
    await found.open(guarded.url)
    await found.shows(IS_ASKED)
    yield found
    assert [each for each in found.problems if "status of 401" not in each] == []
    await found.close()


async def given(page: Page, token: str) -> None:
    """Type a token and press Enter."""
    await page.type(token)
    await page.press("Enter")


async def test_a_typed_token_opens_the_page_and_goes_with_every_question(page: Page) -> None:
    assert await page.evaluate("document.activeElement.id") == "token"
    assert await page.text("#node") == "cri-proxy"
    await given(page, TOKEN)
    await page.shows(f"{DRAWN} && !{IS_ASKED}")
    assert await page.text("#live") == "live"
    await page.point("#rows .name", click=True)
    await page.shows("document.querySelector('#whole h3')")
    await page.press("Escape")
    assert await ask(page, pod("asked", 1)) == "1 container would be placed; nothing was changed"


async def test_what_comes_later_is_shown_as_it_comes(page: Page, guarded: Served) -> None:
    await given(page, TOKEN)
    await page.shows(DRAWN)
    late = await guarded.kubelet.run_pod(PodSpec("late", (guaranteed("c", 1000, memory_bytes=GIB // 4),)))
    await page.shows("document.querySelector('#rows').innerText.includes('late/c')")
    await guarded.kubelet.remove_pod(late.sandbox_id)
    await page.shows("!document.querySelector('#rows').innerText.includes('late/c')")


async def test_a_wrong_token_is_told_and_another_taken(page: Page) -> None:
    await given(page, "a-wrong-token-0000")
    await page.shows("document.querySelector('#wrong').innerText.includes('does not know')")
    await given(page, TOKEN)
    await page.shows(DRAWN)


async def test_the_tab_keeps_the_token_and_another_tab_does_not_have_it(
    page: Page, browser: Chromium, guarded: Served
) -> None:
    await given(page, TOKEN)
    await page.shows(DRAWN)
    await page.open(guarded.url)
    await page.shows(f"{DRAWN} && !{IS_ASKED}")
    other = await browser.new_page()
    await other.call("Security.setIgnoreCertificateErrors", ignore=True)
    await other.open(guarded.url)
    await other.shows(IS_ASKED)
    await other.close()


async def test_a_form_that_is_closed_says_what_is_missing(page: Page) -> None:
    await page.press("Escape")
    await page.shows("document.querySelector('#live').innerText.includes('expected Authorization')")
    await page.shows(IS_ASKED)  # asked again
