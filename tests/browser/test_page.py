"""The page of a real daemon, in a real browser: what it shows, by pointer, finger, keyboard and to a screen reader."""

import json
from collections.abc import AsyncIterator

import pytest

from cri_proxy.cli.render.explain import render_explain
from cri_proxy.cri_client.pods import ContainerSpec, PodSpec, guaranteed
from cri_proxy.errors import CallFailed
from tests.browser.chromium import Page
from tests.browser.scene import GIB, Served, replicas

DB = PodSpec("db-0", (guaranteed("postgres", 2000, memory_bytes=GIB),), "data")
WEB = replicas("web", 3, ContainerSpec("app", 300, memory_request_bytes=GIB // 8), namespace="shop")
LIT = "[...document.querySelectorAll('#map .cpu.lit')].map(e => Number(e.dataset.cpu))"
LOW_CONTRAST = """(() => {
  const linear = (part) => (part <= 10 ? part / 255 / 12.92 : ((part / 255 + 0.055) / 1.055) ** 2.4);
  const light = (color) => {
    const canvas = new OffscreenCanvas(1, 1).getContext("2d");
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    const [red, green, blue] = [...canvas.getImageData(0, 0, 1, 1).data].map(linear);
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue;
  };
  // What is drawn half transparent is a tint of the ground below it.
  const isOpaque = (color) => color.startsWith("rgb(") || (!color.includes("/") && !color.includes("rgba"));
  const ground = (element) => {
    const color = getComputedStyle(element).backgroundColor;
    return isOpaque(color) ? color : ground(element.parentElement);
  };
  const found = [];
  const selector = "h1, h3, h4, p, dt, dd, td, th, button, .summary, .fit, .amount, li";
  for (const element of document.querySelectorAll(selector)) {
    if (!element.textContent || !element.checkVisibility()) continue;
    const [one, other] = [light(getComputedStyle(element).color), light(ground(element))];
    const contrast = (Math.max(one, other) + 0.05) / (Math.min(one, other) + 0.05);
    if (contrast < 4.5) found.push([element.className || element.tagName, element.textContent.slice(0, 20), contrast]);
  }
  return found;
})()"""
ROWS = "[...document.querySelectorAll('#rows .name')].map(e => e.innerText)"


@pytest.fixture(scope="module", autouse=True)
async def pods(node: Served) -> AsyncIterator[None]:
    for spec in (DB, *WEB):
        await node.kubelet.run_pod(spec)
    yield


async def own_cpus(node: Served) -> list[int]:
    status = await node.daemon.admin.status()
    return [*next(each for each in status.containers if each.pod == "db-0").exclusive]


async def test_every_cpu_is_a_box_inside_its_node_and_package(page: Page) -> None:
    assert await page.number("document.querySelectorAll('#map .package .node .core .cpu').length") == 8
    assert await page.number("document.querySelectorAll('#map .node').length") == 2
    assert await page.text("#node") != "cri-proxy"
    assert await page.text("#live") == "live"


async def test_owned_and_reserved_boxes_say_so(page: Page, node: Served) -> None:
    cpus = await own_cpus(node)
    owned = "[...document.querySelectorAll('#map .cpu[data-kind=owned]')].map(e => Number(e.dataset.cpu))"
    assert await page.evaluate(owned) == cpus
    label = f"document.querySelector('#map .cpu[data-cpu=\"{cpus[0]}\"]').ariaLabel"
    assert await page.evaluate(label) == f"CPU {cpus[0]}: data/db-0/postgres's own"
    assert await page.number("document.querySelectorAll('#map .cpu[data-kind=reserved]').length") == 1


async def test_the_largest_fit_and_the_memory_of_a_node_are_shown(page: Page, node: Served) -> None:
    fits = (await node.daemon.admin.status()).fits
    assert fits is not None
    assert f"{fits.cpus} CPU" in await page.text("#fits")
    meters = "[...document.querySelectorAll('#map [role=meter]')].map(e => e.ariaLabel)"
    assert "promised here" in str(await page.evaluate(meters))


async def test_pods_of_a_workload_that_are_alike_are_one_row(page: Page) -> None:
    assert await page.evaluate(ROWS) == ["data/db-0/postgres", "shop/web/app ×3"]
    await page.point("#rows .fold:not(:empty)", click=True)
    assert await page.number("document.querySelectorAll('#rows tr.inside').length") == 3
    await page.point("#rows .fold:not(:empty)", click=True)
    assert len(str(await page.evaluate(ROWS)).split(",")) == 2


async def test_pointing_at_a_row_lights_its_cpus_and_tells_why(page: Page, node: Served) -> None:
    await page.point("#rows tr:first-child .name")
    assert await page.evaluate(LIT) == await own_cpus(node)
    told = render_explain(await node.daemon.admin.explain("db-0"), width=1000)
    first = told.partition("\nwhy\n  - ")[2].partition("\n")[0]
    assert first
    await page.shows(f"document.querySelector('#card').innerText.includes({json.dumps(first)})")
    await page.point("#node")
    assert await page.evaluate(LIT) == []


async def test_pointing_at_a_cpu_lights_all_of_its_owner_and_marks_the_row(page: Page, node: Served) -> None:
    cpus = await own_cpus(node)
    await page.point(f'#map .cpu[data-cpu="{cpus[-1]}"]')
    assert await page.evaluate(LIT) == cpus
    assert await page.text("#card h3") == "data/db-0/postgres"
    assert await page.text("tr.lit .name") == "data/db-0/postgres"


async def test_a_click_opens_the_whole_explanation_and_escape_closes_it(page: Page) -> None:
    await page.point("#rows tr:first-child .name", click=True)
    await page.shows("document.querySelector('#whole h3')")
    whole = await page.text("#whole")
    assert whole.startswith("data/db-0/postgres")
    for title in ("asked for", "why", "choice of CPUs", "pools, best first"):
        assert f"\n{title}\n" in whole
    await page.press("Escape")
    await page.shows("!document.querySelector('#whole').open")


async def test_a_first_tap_points_and_a_second_one_opens(page: Page, node: Served) -> None:
    await page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    await page.tap("#rows tr:first-child .name")
    await page.shows(f"{LIT}.length == {len(await own_cpus(node))}")
    assert await page.evaluate("document.querySelector('#whole').open") is False
    await page.tap("#rows tr:first-child .name")
    await page.shows("document.querySelector('#whole').open")


async def test_on_a_phone_the_card_that_covers_the_row_opens_the_whole(page: Page) -> None:
    await page.resize(390, 800)
    await page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    await page.tap("#rows tr:last-child .name")
    await page.shows("document.querySelector('#card h3')")
    await page.tap("#card h3")
    await page.shows("document.querySelector('#whole').open")
    await page.press("Escape")
    await page.tap("#words")  # what is typed, and what it finds, stays in view
    await page.type("db-0")
    for selector in ("#words", "#rows .name"):
        bottom = await page.number(f"document.querySelector('{selector}').getBoundingClientRect().bottom")
        assert 0 < bottom <= 800, selector
    assert await page.evaluate("getComputedStyle(document.querySelector('#card')).position") == "static"


@pytest.mark.parametrize(
    ("words", "rows"),
    [("postgres", 1), ("shared", 1), ("shop web", 1), ("node:0", 2), ("no-such-thing", 0), ("", 2)],
)
async def test_the_filter_keeps_rows_with_all_its_words(page: Page, words: str, rows: int) -> None:
    await page.evaluate("document.getElementById('words').value = ''")
    await page.point("#words", click=True)
    await page.type(words or " ")
    found = await page.number("document.querySelectorAll('#rows tr').length")
    # Where sharers may run is the policy's to say.
    assert found == rows or (words == "node:0" and 1 <= found <= 2)


async def test_what_is_as_wished_can_be_left_out(page: Page) -> None:
    await page.point("#problems", click=True)
    assert await page.number("document.querySelectorAll('#rows tr').length") == 0
    assert await page.text("#count") == "0 of 4 containers"


async def test_all_can_be_done_by_keys(page: Page, node: Served) -> None:
    await page.press("/")
    assert await page.evaluate("document.activeElement.id") == "words"
    await page.press("Tab")  # the box beside it
    await page.press("Tab")
    assert await page.evaluate("document.activeElement.innerText") == "data/db-0/postgres"
    assert await page.evaluate(LIT) == await own_cpus(node)
    await page.press("ArrowDown")
    assert await page.evaluate("document.activeElement.innerText") == "shop/web/app ×3"
    await page.press("ArrowRight")
    assert await page.number("document.querySelectorAll('#rows tr.inside').length") == 3
    await page.press("ArrowLeft")
    await page.press("ArrowUp")
    await page.press("Enter")
    await page.shows("document.querySelector('#whole').open")


async def test_arrows_move_on_the_map(page: Page) -> None:
    await page.resize(375, 800)  # one node below the other
    await page.evaluate("document.querySelector('#map .cpu').focus()")
    places = []
    for key in ("ArrowRight", "ArrowRight", "ArrowLeft", "ArrowDown", "End"):
        await page.press(key)
        places.append(await page.number("Number(document.activeElement.dataset.cpu)"))
    assert places[:3] == [1, 2, 1]
    assert places[3:] == [5, 7]
    assert await page.number("document.querySelectorAll('#map .cpu[tabindex=\"0\"]').length") == 1


async def test_a_screen_reader_gets_names_and_roles(page: Page) -> None:
    await page.call("Accessibility.enable")
    tree = await page.call("Accessibility.getFullAXTree")
    nodes = tree["nodes"]
    assert isinstance(nodes, list)
    heard = {(each.get("role", {}).get("value"), each.get("name", {}).get("value")) for each in nodes}
    assert {
        ("tab", "Now"),
        ("tab", "Will it fit?"),
        ("table", "Containers"),
        ("log", "Moves, refusals, reloads"),
    } <= heard
    assert ("region", "The machine") in heard
    assert any(role == "listbox" and name.startswith("CPUs of NUMA node 0: ") for role, name in heard)
    named = ("button", "option", "textbox", "searchbox", "checkbox", "tab", "meter")
    assert [role for role, name in heard if role in named and not name] == []


async def test_a_change_is_shown_as_it_comes(page: Page, node: Served) -> None:
    before = await page.number("document.querySelectorAll('#map .cpu[data-kind=owned]').length")
    await page.point("#starts", click=True)
    pod = await node.kubelet.run_pod(PodSpec("late", (guaranteed("c", 1000, memory_bytes=GIB // 4),)))
    await page.shows(f"document.querySelectorAll('#map .cpu[data-kind=owned]').length == {before + 1}")
    assert "default/late/c" in await page.text("#rows")
    assert "default/late/c running, 1 exclusive" in (await page.text("#news")).replace("\n", " ")
    await node.kubelet.remove_pod(pod.sandbox_id)
    await page.shows("document.querySelector('#news').innerText.includes('gone')")
    assert await page.number("document.querySelectorAll('#map .cpu[data-kind=owned]').length") == before
    assert await page.evaluate("performance.getEntriesByName('drawn').length > 2")


async def test_a_refusal_is_news(page: Page, node: Served) -> None:
    with pytest.raises(CallFailed):
        await node.kubelet.run_pod(PodSpec("huge", (guaranteed("c", 60_000, memory_bytes=GIB),)))
    await page.shows("document.querySelector('#news [data-kind=refusal]')")
    assert "default/huge/c" in await page.text("#news [data-kind=refusal]")


async def test_the_focus_stays_where_it_is_while_rows_come_and_go(page: Page, node: Served) -> None:
    await page.evaluate("[...document.querySelectorAll('#rows .name')].find(e => e.innerText.includes('db-0')).focus()")
    first = "[...document.querySelectorAll('#rows .name')].find(e => !e.closest('tr').innerText.includes('refused'))"
    pod = await node.kubelet.run_pod(PodSpec("a-first", (ContainerSpec("c"),), "a"))
    await page.shows(f"{first}.innerText.startsWith('a/')")
    assert await page.evaluate("document.activeElement.innerText") == "data/db-0/postgres"
    await node.kubelet.remove_pod(pod.sandbox_id)
    await page.shows(f"{first}.innerText.startsWith('data/')")


@pytest.mark.parametrize(("width", "is_dark"), [(1440, True), (1440, False), (768, True), (375, False), (320, True)])
async def test_it_fits_every_width_in_dark_and_light(page: Page, width: int, is_dark: bool) -> None:
    await page.resize(width, 800, is_dark=is_dark)
    await page.shows(f"innerWidth == {width}")
    assert await page.number("document.documentElement.scrollWidth") <= width
    ground = str(await page.evaluate("getComputedStyle(document.body).backgroundColor"))
    assert ground == ("rgb(13, 17, 25)" if is_dark else "rgb(244, 245, 248)")


async def test_text_stands_out_from_its_ground(page: Page) -> None:
    """WCAG 2.2, 1.4.3: a contrast of 4.5 to 1."""
    for is_dark in (True, False):
        await page.resize(1440, 900, is_dark=is_dark)
        assert await page.evaluate(LOW_CONTRAST) == []
