from dataclasses import replace

from cri_proxy.simulate.outcome import ContainerState, StepOutcome, moved_between
from sysfs.cpuset import CpuSet, NodeSet

WEB = ContainerState(
    "id1", "running", CpuSet.parse("2-4"), NodeSet.parse("0"), CpuSet.parse("2-3"), shared=CpuSet.parse("4")
)


def test_the_json_of_a_step_is_the_contract() -> None:
    outcome = StepOutcome(2, {"stop": "a/b"}, ("no", "never"), {"web/c0": WEB})
    assert outcome.json_value() == {
        "index": 2,
        "step": {"stop": "a/b"},
        "ok": False,
        "error": "no; never",
        "updated": [],
        "containers": {
            "web/c0": {
                "cpus": "2-4",
                "mems": "0",
                "exclusive": "2-3",
                "isolated": "",
                "shared": "4",
                "shared_mcpu": 0,
                "reserved": "",
                "pool": "",
                "state": "running",
            }
        },
    }


def test_a_container_with_no_cpu_time_booked_is_marked_and_no_other_is() -> None:
    assert WEB.json_value().get("overcommitted") is None
    assert replace(WEB, overcommitted=True).json_value()["overcommitted"] is True


def test_devices_are_listed_where_there_are_any() -> None:
    assert "devices" not in WEB.json_value()
    assert replace(WEB, devices=("x.io/gpu/g0",)).json_value()["devices"] == ["x.io/gpu/g0"]


def test_moved_is_who_lived_through_it_on_other_sets() -> None:
    other_cpus, other_mems = replace(WEB, cpus=CpuSet.parse("5")), replace(WEB, mems=NodeSet.parse("1"))
    before = {"same": WEB, "cpus": WEB, "mems": WEB}
    after = {"same": WEB, "cpus": other_cpus, "mems": other_mems}
    assert [moved.container for moved in moved_between(before, after, ())] == ["cpus", "mems"]


def test_whom_the_step_names_was_not_moved_by_it() -> None:
    assert moved_between({"web": WEB}, {"web": replace(WEB, cpus=CpuSet())}, ("web",)) == ()


def test_a_new_attempt_or_an_end_is_no_move() -> None:
    other = replace(WEB, id="id2", cpus=CpuSet.parse("9"))
    ended = ContainerState("id1", "exited")
    assert moved_between({"a": WEB, "b": WEB}, {"a": other, "b": ended, "c": WEB}, ()) == ()
