import io
import json
import subprocess
import sys

import pytest

from cri_proxy.errors import CommandFailed
from cri_proxy.intercept.fit import MOST_CONTAINERS, decode_creates
from cri_proxy.simulate.plan.fit_request import answer, creates_of, main, question_of

POD = "kind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: c, resources: {limits: {cpu: 2, memory: 1Gi}}}]}\n"
WITH_INIT = POD.replace("spec: {", "spec: {initContainers: [{name: first}], ")
GIB = 1 << 30


def test_a_pod_is_a_create_for_each_container_that_stays() -> None:
    (create,) = decode_creates(question_of(creates_of([("m.yaml", WITH_INIT)], "shop", 8 * GIB)).encode())
    assert (create.sandbox.metadata.namespace, create.sandbox.metadata.name) == ("shop", "web")
    assert create.create.config.metadata.name == "c"
    assert create.create.config.linux.resources.cpu_quota == 200_000


def test_without_a_pod_there_is_no_question() -> None:
    with pytest.raises(CommandFailed, match="have no pods"):
        creates_of([("m.yaml", "kind: Service\n")], "default", GIB)


def test_more_containers_than_are_answered_at_once_are_refused() -> None:
    with pytest.raises(CommandFailed, match=f"answers for {MOST_CONTAINERS}"):
        question_of(creates_of([("m.yaml", f"count: {MOST_CONTAINERS + 1}\n{POD}")], "default", GIB))


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("kind: Pod\n\t- x\n", "the manifest:2"),
        ("kind: Service\n", "have no pods"),
        (POD.replace("cpu: 2", "cpu: two"), "two"),
        ("[" * 5000, "the manifest"),
    ],
)
def test_what_cannot_be_read_is_answered_with_the_problem(text: str, problem: str) -> None:
    assert problem in json.loads(answer(text, "default", GIB))["problem"]


def test_the_question_is_written_to_standard_output() -> None:
    written = io.StringIO()
    main([str(GIB), "default"], io.StringIO(POD), written)
    assert len(decode_creates(written.getvalue().encode())) == 1


def test_the_process_takes_no_more_memory_than_it_may() -> None:
    grab = "bound_this_process(); x = bytearray(2 << 30)"
    program = f"from cri_proxy.simulate.plan.fit_request import bound_this_process; {grab}"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, check=False)
    assert done.returncode != 0
    assert b"MemoryError" in done.stderr
