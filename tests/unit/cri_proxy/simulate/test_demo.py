from cri_proxy.simulate.demo import CAPTIONS, EXPLAINED, Demo, DemoStep, demo_scenario
from cri_proxy.simulate.run_files import run_scenario


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
