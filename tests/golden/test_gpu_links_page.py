import json
from pathlib import Path

from cri_proxy.extender.server import ExtenderServer
from cri_proxy.logs import configure_logging
from policies.devices.links import link_annotation, read_annotation
from tests.fakes.scheduler import exchanged
from tests.golden.costs_page import answer, answered
from tests.golden.gpu_links_page import PAGE
from tests.house.tree import ROOT

QUESTION = ROOT / "configs" / "links" / "question.json"


def test_the_page_shows_what_its_commands_answer(tmp_path: Path) -> None:
    """After a change that was meant: ``python -m tests.golden.gpu_links_page`` writes the answers."""
    page = PAGE.read_text()
    assert all(f"$ cri-proxy gpu {action}" in page for action in ("topology", "allocate", "score", "publish"))
    assert answered(page, tmp_path) == page


async def test_the_page_shows_what_the_extender_answers() -> None:
    server = ExtenderServer(log=configure_logging("error", "json"))
    await server.open("127.0.0.1:0")
    _, body = await exchanged(server.addresses[0], "POST", "/extender/prioritize", QUESTION.read_bytes())
    await server.close()
    _, _, shown = PAGE.read_text().partition("/extender/prioritize --data @configs/links/question.json\n")
    assert shown.split("\n")[0].strip() == body.decode().strip()


def test_the_question_of_the_page_has_the_words_of_the_story(tmp_path: Path) -> None:
    words = [found["value"] for found in json.loads(answer("gpu publish configs/links/story.yaml -o json", tmp_path))]
    assert [link_annotation(read_annotation(word)) for word in words] == words
    nodes = json.loads(QUESTION.read_text())["Nodes"]["items"]
    published = [node["metadata"].get("annotations", {}).get("cri-proxy.io/gpu-links", "") for node in nodes]
    assert published == [*words, ""]
