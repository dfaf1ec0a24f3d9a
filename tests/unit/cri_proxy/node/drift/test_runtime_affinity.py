"""A node of 8 CPUs whose runtime runs on some of them: the first processes of containers as /proc has them."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from cri_proxy.cri_client.pods import ContainerSpec
from cri_proxy.node.drift.runtime_affinity import Allowed, NarrowedContainers, read_allowed
from cri_proxy.state.rows import Row
from sysfs.cpuset import CpuSet
from tests.fakes.site import Site

SHARER = ContainerSpec("c", cpu_request_mcpu=100)


def allowed(cpus: str, parent: str) -> Allowed:
    return Allowed(CpuSet.parse(cpus), CpuSet.parse(parent))


async def look(site: Site, found: Allowed | None, name: str = "web") -> tuple[NarrowedContainers, Row, list[int]]:
    asked: list[int] = []

    def read(pid: int) -> Allowed | None:
        asked.append(pid)
        return found

    narrowed = NarrowedContainers(site.node.context, read)
    row = site.row((await site.run(name, SHARER)).container_id("c"))
    assert str(row.known.cpus) == "4-7"
    for _ in range(2):
        await narrowed.look([(row, 77)])
    return narrowed, row, asked


@pytest.mark.parametrize(
    ("cpus", "parent", "is_told"),
    [
        ("4-5", "0-5", True),
        ("7", "7", True),
        ("4-7", "0-5", False),  # runc has reset it
        ("4-7", "0-3", False),  # nothing in common: the kernel gives it the whole cpuset
        ("4-7", "0-7", False),
        ("5", "0-7", False),  # it has pinned itself
        ("5", "0-5", False),
        ("0-7", "0-5", False),  # not in its cpuset: another look says so
    ],
)
async def test_only_a_cpuset_that_the_runtimes_affinity_cuts_is_told(
    site: Site, cpus: str, parent: str, is_told: bool
) -> None:
    narrowed, _, asked = await look(site, allowed(cpus, parent))
    assert (narrowed.count(), len(narrowed.warnings()), site.log.warnings.count("narrowed")) == (is_told,) * 3
    assert asked == [77]


async def test_the_operator_reads_which_container_runs_where_and_what_helps(site: Site) -> None:
    narrowed, row, _ = await look(site, allowed("4-5", "0-5"))
    (warning,) = narrowed.warnings()
    assert str(row.name) in warning
    assert "CPUAffinity=" in warning
    record = site.journal.records.get(row.key)
    assert record is not None
    assert any("CPUs 4-5 of 4-7" in str(each) for each in record.history)


async def test_a_container_that_has_gone_is_forgotten(site: Site) -> None:
    narrowed, row, asked = await look(site, allowed("5", "5"))
    narrowed.keep({row.container_id})
    assert narrowed.count() == 1
    narrowed.keep(())
    assert (narrowed.count(), narrowed.warnings()) == (0, ())
    await narrowed.look([(row, 78)])
    assert asked == [77, 78]


async def test_a_process_that_has_gone_is_none(site: Site) -> None:
    assert (await look(site, None))[0].count() == 0


@contextmanager
def proc(root: Path, **statuses: str) -> Iterator[Path]:
    for pid, text in statuses.items():
        place = root / "proc" / pid.removeprefix("p")
        place.mkdir(parents=True)
        (place / "status").write_text(text)
    yield root


STATUS = "Name:\tsleep: x\nPPid:\t{}\nCpus_allowed:\tff\nCpus_allowed_list:\t{}\n"


def test_the_files_of_a_process_and_its_parent_are_read(tmp_path: Path) -> None:
    with proc(tmp_path, p9=STATUS.format(7, "0-1"), p7=STATUS.format(1, "0,4")) as root:
        assert read_allowed(root, 9) == allowed("0-1", "0,4")
        assert read_allowed(root, 7) is None  # its parent is in no file
        assert read_allowed(root, 8) is None


@pytest.mark.parametrize("text", ["", "PPid:\t7\n", STATUS.format("", "0-1"), STATUS.format(7, "0-"), "\0garbage"])
def test_files_of_another_form_say_nothing(text: str, tmp_path: Path) -> None:
    with proc(tmp_path, p9=text, p7=STATUS.format(1, "0")) as root:
        assert read_allowed(root, 9) is None
