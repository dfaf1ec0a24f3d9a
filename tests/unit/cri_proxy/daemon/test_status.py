import asyncio
import re
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from cri_proxy.daemon.status import HostFiles, HttpAddress
from cri_proxy.file_workers import FilesFailed, FileWorkers
from tests.fakes.loops import SkippingLoop, skip
from tests.fakes.site import Silent
from tests.fakes.waiting import holds

SECONDS = 60.0


@pytest.fixture
def anyio_backend() -> tuple[str, dict[str, object]]:
    return "asyncio", {"loop_factory": SkippingLoop}


def hang(asked: threading.Event, freed: threading.Event) -> None:
    asked.set()
    freed.wait(SECONDS)


@asynccontextmanager
async def pods_with_a_dead_volume() -> AsyncIterator[HostFiles]:
    """The files of the host answer; a volume of a pod does not."""
    files = HostFiles(FileWorkers(None, most=1), FileWorkers(None, most=1))
    asked, freed = threading.Event(), threading.Event()
    try:
        await files.of_host.run("/var/lib", str, within_seconds=SECONDS)
        looking = files.of_pods.run("/mnt/dead", hang, asked, freed, within_seconds=SECONDS)
        dead = asyncio.get_running_loop().create_task(looking)
        await holds("it is asked", asked.is_set)
        skip(SECONDS)
        with pytest.raises(FilesFailed):
            await dead
        yield files
    finally:
        freed.set()
        files.close()


async def test_a_volume_that_hangs_is_a_warning_that_says_what_is_missing_meanwhile() -> None:
    async with pods_with_a_dead_volume() as files:
        (warning,) = files.warnings()
    assert re.match(r"files of pods: /mnt/dead has not answered for \d+ s; containers are placed without", warning)


async def test_what_hangs_is_counted_apart_for_pods_and_for_the_host() -> None:
    async with pods_with_a_dead_volume() as files:
        assert {sample.labels: sample.value for sample in files.samples()} == {("pod",): 1, ("host",): 0}


def test_an_http_address_that_cannot_be_had_is_a_warning_until_it_can() -> None:
    http = HttpAddress(Silent())
    http.failed("localhost:80", "the port is taken")
    assert http.warnings() == ("http: the port is taken",)
    http.opened("localhost:80")
    assert http.warnings() == ()


def test_files_of_https_that_cannot_be_used_are_a_warning_until_they_can() -> None:
    http = HttpAddress(Silent())
    http.files_judged("/c: No such file or directory")
    assert http.warnings() == ("httpTLS: /c: No such file or directory; what was read before stays in force",)
    http.files_judged("")
    assert http.warnings() == ()
