import json

from hypothesis import given, settings

from sysfs.model import Machine
from sysfs.show.as_json import json_value
from tests.fakes.machines import machines, small_machine


@settings(max_examples=30, deadline=None)
@given(machines())
def test_the_data_survives_json_and_has_every_cpu_and_node(machine: Machine) -> None:
    value = json.loads(json.dumps(json_value(machine)))
    assert value == json_value(machine)
    assert [cpu["id"] for cpu in value["cpus"]] == list(machine.online)
    assert [node["memory_bytes"] for node in value["nodes"]] == [n.memory_bytes for n in machine.nodes]


def test_devices_show_codes_as_sysfs_does() -> None:
    value = json_value(small_machine(pci=[{"address": "3b:00.0", "class": 0x030200, "vendor": 0x10DE, "node": 1}]))
    assert value["devices"] == [
        {
            "address": "0000:3b:00.0",
            "class": "030200",
            "class_name": "3D controller",
            "vendor": "10de",
            "device": "0000",
            "node": 1,
            "local_cpus": "4-7",
            "bridges": ["pci0000:3b"],
            "physical_function": "",
            "rdma": False,
        }
    ]


def test_sets_are_cpu_lists() -> None:
    value = json_value(small_machine(offline="5", isolated="3"))
    assert (value["online"], value["offline"], value["isolated"]) == ("0-4,6-7", "5", "3")
    assert value["packages"] == [{"id": 0, "cpus": "0-3"}, {"id": 1, "cpus": "4,6-7"}]
