"""One Chromium for all tests, and a daemon for each of their modules; without the browser they are skipped and say so.

With ``CI=true`` a missing browser is a failure. All run on one event loop, so that connections live as long as their
fixtures.
"""

import os
from collections.abc import AsyncIterator

import pytest

from tests.browser.chromium import REMEDY, Chromium, Page, program
from tests.browser.scene import Served, served


@pytest.fixture(scope="session", autouse=True)
def anyio_backend() -> tuple[str, dict[str, object]]:
    if not program():
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)(f"no Chromium is installed ({REMEDY})")
    return "asyncio", {}


@pytest.fixture(scope="session")
async def browser(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Chromium]:
    async with Chromium(tmp_path_factory.mktemp("chromium")) as found:
        yield found


@pytest.fixture(scope="module")
async def node(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """A small node without pods."""
    async with served(tmp_path_factory.mktemp("node")) as found:
        yield found


@pytest.fixture
async def page(browser: Chromium, node: Served) -> AsyncIterator[Page]:
    """The page of the node, drawn; at its end the console must be empty: the policy has refused nothing."""
    found = await browser.new_page()
    await found.open(node.url)
    await found.shows("document.body?.dataset.drawn")
    yield found
    assert found.problems == []
    await found.close()
