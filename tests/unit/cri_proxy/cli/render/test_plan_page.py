from dataclasses import replace
from html.parser import HTMLParser

from cri_proxy.cli.render.plan_page import plan_page
from cri_proxy.simulate.plan.result import PlanRefusal
from tests.unit.cri_proxy.simulate.plan.test_result import node, placed, result

EVIL = "<script>alert(1)</script>\u202e\"'"
PLAN = replace(
    result(node(placed(EVIL, "0")), refused=(PlanRefusal(EVIL, EVIL, EVIL, EVIL, EVIL),)), title=EVIL, notes=(EVIL,)
)


class Tags(HTMLParser):
    """Collects the tags and attributes of a page, and whether it is well formed."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.open: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.attributes += attrs
        self.open += [tag] if tag != "meta" else []

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def test_foreign_words_are_text_and_nothing_is_loaded() -> None:
    page = plan_page([PLAN, PLAN])
    found = Tags(page)
    assert found.open == []
    assert "script" not in found.tags
    assert {"src", "href", "onclick", "onload"}.isdisjoint(name for name, _ in found.attributes)
    assert "\u202e" not in page
    assert "url(" not in page and "default-src 'none'" in page


def test_every_cpu_is_a_box_and_an_owner_is_named_on_it() -> None:
    found = Tags(plan_page([result(node(placed("web/c", "0")))]))
    titles = [value or "" for name, value in found.attributes if name == "title"]
    assert [title for title in titles if title.startswith("CPU")] == [
        *("CPU 0: web/c", "CPU 1: shared", "CPU 2: shared", "CPU 3: shared"),
    ]


def test_one_thing_is_no_plural() -> None:
    page = plan_page([replace(PLAN, title="", pods=1)])
    assert "<summary>1 container</summary>" in page
    assert "; 1 pod in order" in page
