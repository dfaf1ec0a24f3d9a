from cri_proxy.simulate.demo import CAPTIONS, EXPLAINED, MANY, Demo, DemoStep, demo_scenario, grid, lettered
from cri_proxy.simulate.outcome import ContainerState
from cri_proxy.simulate.run_files import run_scenario
from sysfs.cpuset import CpuSet
from sysfs.descriptions.machine import describe


async def played() -> tuple[list[DemoStep], Demo]:
    demo = Demo()
    scenes = [scene async for scene in demo.steps()]
    await demo.runner.close()
    return scenes, demo


def test_every_step_has_its_sentence() -> None:
    steps = demo_scenario().steps
    assert len(steps) == len(CAPTIONS)
    for step, caption in zip(steps, CAPTIONS, strict=True):
        written = step.written
        assert isinstance(written, dict)
        pod = written["create"]["pod"] if "create" in written else "runtime"
        assert pod in caption


def test_only_the_giant_is_refused() -> None:
    refused = [outcome.step for outcome in run_scenario(demo_scenario()).outcomes if not outcome.ok]
    assert ["giant" in str(step) for step in refused] == [True]


def test_what_the_sentences_promise_happens() -> None:
    seen = run_scenario(demo_scenario()).outcomes[-1].containers
    assert seen["node-agent/agent"].reserved == seen["node-agent/agent"].cpus
    assert len(seen["trader/loop"].isolated) == 1
    assert (len(seen["stream/codec"].exclusive), seen["stream/codec"].shared_mcpu) == (2, 500)
    assert seen["cache/redis"].pool == seen["database/engine"].pool != seen["replica/engine"].pool
    assert seen["report/writer"].pool == "root"


async def test_the_picture_fills_and_the_restart_changes_nothing() -> None:
    scenes, _ = await played()
    restart = next(i for i, scene in enumerate(scenes) if "restart" in scene.caption)
    assert scenes[restart].cpus == scenes[restart - 1].cpus
    assert scenes[restart].news == ("no container changed",)
    letters = [len({mark for row in scene.cpus for mark in row if mark.isupper()}) for scene in scenes]
    assert letters == sorted(letters)
    assert letters[-1] == 5


async def test_the_last_word_is_why_one_container_sits_where_it_sits() -> None:
    _, demo = await played()
    (explained,) = demo.runner.simulated.view.explain(*EXPLAINED).decisions
    decision = explained.decision
    assert (decision.request.pod.name, decision.request.container.name) == EXPLAINED
    assert decision.ranking
    assert decision.displaced
    assert len(demo.runner.simulated.view.status().containers) == 9


def owning(cpus: str) -> ContainerState:
    return ContainerState("id", "running", CpuSet.parse(cpus), exclusive=CpuSet.parse(cpus))


def test_every_cpu_has_its_mark_beside_its_thread_sibling() -> None:
    machine = describe({"packages": 2, "nodes": 2, "cores": 2, "threads": 2, "memory": "1Gi", "isolated": "14-15"})
    seen = {"web/c0": owning("4-5"), "bg/c0": ContainerState("id", "running", CpuSet.parse("6-7"))}
    assert grid(machine, CpuSet.parse("0"), seen, lettered(seen, {})) == [
        "package 0   node 0  r· ··    node 1  AA ··",
        "package 1   node 2  ·· ··    node 3  ·· ii",
    ]


def test_a_letter_stays_with_its_container() -> None:
    letters = lettered({"b": owning("2"), "a": owning("1")}, lettered({"a": owning("1")}, {}))
    assert letters == {"a": "A", "b": "B"}


def test_past_the_alphabet_all_look_alike() -> None:
    letters = lettered({f"c{i:02}": owning(str(i)) for i in range(28)}, {})
    assert (letters["c25"], letters["c26"], letters["c27"]) == ("Z", MANY, MANY)
