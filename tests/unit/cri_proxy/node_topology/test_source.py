import json
from pathlib import Path

from cri_proxy.cri_client.pods import guaranteed
from cri_proxy.file_workers import PLAIN_THREADS
from cri_proxy.http.messages import Response
from cri_proxy.node_topology.source import NOT_PLACED, NOT_RECOVERED, TopologyFile, TopologySource
from cri_proxy.steps import at_once
from policies.builder import build_policy
from policies.options import PolicyOptions
from tests.fakes.machines import small_machine
from tests.fakes.site import Site, opened
from tests.testbed.wait import until


def source_of(site: Site) -> TopologySource:
    return TopologySource(site.node, "n1", lambda: "ab12")


def text_of(source: TopologySource) -> bytes:
    text, problem = at_once(source.text_steps())
    assert not problem
    return text


def answer_of(source: TopologySource) -> Response:
    return at_once(source.answer({}))


def file_of(site: Site, path: Path) -> TopologyFile:
    return TopologyFile(source_of(site), path, site.node, PLAIN_THREADS)


def signed(text: bytes) -> str:
    annotations: dict[str, str] = json.loads(text)["metadata"]["annotations"]
    return annotations["topology.node.k8s.io/fingerprint"]


async def test_the_object_follows_the_grants_and_the_pods() -> None:
    async with opened(Site()) as site:
        source = source_of(site)
        before = text_of(source)
        assert text_of(source) is before  # nothing is made anew
        pod = await site.run("web", guaranteed("c", 2000))
        after = text_of(source)
        assert signed(after) != signed(before)
        await site.kubelet.remove_pod(pod.sandbox_id)
        await site.node.settle()
        assert json.loads(text_of(source)) == json.loads(before)


async def test_a_pod_that_has_ended_is_not_counted() -> None:
    """The scheduler compares with the pods that run; the sandbox of a job stays until the kubelet removes it."""
    async with opened(Site()) as site:
        source = source_of(site)
        before = text_of(source)
        await site.run("job", guaranteed("c", 1000))
        site.node.context.ledger.note_stopped(site.node.context.ledger.sandboxes)
        assert signed(text_of(source)) == signed(before)


async def test_nothing_is_told_before_the_saved_placements_are_checked() -> None:
    async with opened(Site()) as site:
        site.node.coordinator.is_ready = False
        answer = answer_of(source_of(site))
    assert (answer.status, answer.body.decode().strip()) == (503, NOT_RECOVERED)


async def test_nothing_is_told_where_the_policy_places_no_containers() -> None:
    machine = small_machine()
    async with opened(Site(build_policy("none", machine, PolicyOptions(machine.online)))) as site:
        answer = answer_of(source_of(site))
    assert (answer.status, answer.body.decode().strip()) == (503, NOT_PLACED)


async def test_the_answer_is_json() -> None:
    async with opened(Site()) as site:
        answer = answer_of(source_of(site))
    assert answer.status == 200
    assert json.loads(answer.body)["metadata"]["name"] == "n1"


async def test_the_file_is_replaced_when_the_object_changes_and_not_before(tmp_path: Path) -> None:
    async with opened(Site()) as site:
        path = tmp_path / "node.json"
        file = file_of(site, path)
        await file.write()
        first = path.stat()
        await file.write()
        assert path.stat().st_ino == first.st_ino
        await site.run("web", guaranteed("c", 2000))
        await file.write()
        assert path.read_bytes() == text_of(source_of(site))
        assert path.stat().st_mode & 0o777 == 0o644
        assert list(tmp_path.iterdir()) == [path]


async def test_a_file_that_cannot_be_written_is_a_warning_until_it_can(tmp_path: Path) -> None:
    async with opened(Site()) as site:
        file = file_of(site, tmp_path / "absent" / "node.json")
        await file.write()
        await file.write()
        assert site.log.warnings == ["node_topology_unwritten"]
        assert "No such file or directory" in file.warnings()[0]
        (tmp_path / "absent").mkdir()
        await file.write()
        assert file.warnings() == ()
        assert (tmp_path / "absent" / "node.json").exists()


async def test_the_file_goes_on_following(tmp_path: Path) -> None:
    path = tmp_path / "node.json"
    async with opened(Site()) as site:
        site.node.keep_doing(file_of(site, path).follow, "node topology")
        await site.run("web", guaranteed("c", 1000))

        async def has_it() -> bool:
            return path.exists() and path.read_bytes() == text_of(source_of(site))

        await until("the file has the object", has_it, seconds=20)
        await site.run("db", guaranteed("c", 1000))
        await until("the file has the next object", has_it, seconds=20)
        await site.node.close()
