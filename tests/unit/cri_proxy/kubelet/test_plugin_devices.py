import pytest

from cri_proxy.kubelet.plugin_devices import POLL_SECONDS, RegisteredDevices, registered_devices
from cri_proxy.kubelet.proto import podresources_v1_pb2 as pb
from cri_proxy.node.decision_log.journal import Journal
from cri_proxy.tasks import Tasks
from policies.devices import RegisteredDevice
from tests.fakes.clock import ManualClock
from tests.fakes.site import Silent
from tests.fakes.waiting import holds
from tests.unit.cri_proxy.kubelet.service import KubeletService, devices

UUID = "GPU-5a1b2c3d-0000-1111-2222-333344445555"
IDENTITY = UUID.lower().replace("-", "")


def found(*offered: pb.ContainerDevices) -> list[tuple[int, str, str, int]]:
    """Node, vendor, identity and how many names each device has."""
    told = registered_devices(pb.AllocatableResourcesResponse(devices=offered))
    return [(each.numa, each.vendor, each.identity, len(each.names)) for each in told]


@pytest.mark.parametrize(
    ("resource", "vendor"),
    [("nvidia.com/gpu", "nvidia"), ("amd.com/cpx_nps4", "amd"), ("gpu.intel.com/i915", ""), ("dcu.com/gpu", "hygon")],
)
def test_a_device_has_the_vendor_of_its_resource(resource: str, vendor: str) -> None:
    assert found(devices(resource, "0", nodes=(1,))) == [(1, vendor, "", 1)]


def test_the_kubelets_name_is_that_of_the_resource_and_the_id() -> None:
    (device,) = registered_devices(
        pb.AllocatableResourcesResponse(devices=[devices("gpu.intel.com/i915", "card0", nodes=(1,))])
    )
    assert device == RegisteredDevice(1, ("podresapi:gpu.intel.com/i915/card0",))


def test_parts_of_a_device_are_one() -> None:
    assert found(devices("gpu.intel.com/i915", "card0-0", "card0-1", "card1-0", nodes=(0,))) == [
        (0, "", "", 2),
        (0, "", "", 1),
    ]
    assert found(devices("nvidia.com/gpu.shared", f"{UUID}::0", f"{UUID}::1", nodes=(0,))) == [
        (0, "nvidia", IDENTITY, 2)
    ]
    by_memory = devices("aliyun.com/gpu-mem", f"{UUID}-_-0", f"{UUID}-_-1", nodes=(0,))
    assert found(by_memory, devices("nvidia.com/gpu", UUID, nodes=(0,))) == [(0, "", IDENTITY, 3)]
    assert found(devices("amd.com/gpu", "0000:9A:00.0", nodes=(0,))) == [(0, "amd", "0000:9a:00.0", 1)]


def test_what_computes_nothing_or_is_on_no_one_node_is_left_out() -> None:
    assert (
        found(
            devices("intel.com/sriov_net", "0000:51:00.1", nodes=(0,)),
            devices("devices.kubevirt.io/kvm", "kvm0", nodes=(0,)),
            devices("nvidia.com/gpu", "a"),
            devices("nvidia.com/gpu", "b", nodes=(0, 1)),
        )
        == []
    )


class Heard(Silent):
    def info(self, event: str, **fields: object) -> None:
        self.warnings.append(str(fields["reason"]))

    warning = info


class Scene:
    """A poll of a kubelet, with what was logged."""

    def __init__(self) -> None:
        self.kubelet, self.log, self.clock, self.is_asked = KubeletService(), Heard(), ManualClock(), True
        self.offer("card0")
        self.registered = RegisteredDevices(
            self.kubelet, self.clock, Journal(self.log, self.clock), is_asked=lambda: self.is_asked, look=self.look
        )

    def offer(self, *ids: str) -> None:
        offered = [devices("gpu.intel.com/i915", *ids, nodes=(1,))]
        self.kubelet.machine = pb.AllocatableResourcesResponse(devices=offered)

    async def look(self) -> None:
        """The directory answers."""

    def names(self) -> list[str]:
        return [name.rpartition("/")[2] for device in self.registered.devices for name in device.names]


async def test_only_a_change_is_told() -> None:
    scene = Scene()
    assert [await scene.registered.ask() for _ in range(2)] == [True, False]
    scene.offer("card0", "card1")
    assert (await scene.registered.ask(), scene.names()) == (True, ["card0", "card1"])


async def test_a_kubelet_that_is_away_changes_nothing_and_is_reported_once() -> None:
    scene = Scene()
    await scene.registered.ask()
    scene.kubelet.get = "absent"
    assert [await scene.registered.ask() for _ in range(2)] == [False, False]
    assert (scene.names(), len(scene.log.warnings)) == (["card0"], 1)
    assert scene.log.warnings[0].startswith("the kubelet does not tell its devices")
    scene.kubelet.get = "offered"
    assert not await scene.registered.ask()
    scene.kubelet.get = "absent"
    await scene.registered.ask()
    assert len(scene.log.warnings) == 2


async def test_no_kubelet_no_devices_and_none_where_it_may_not_be_asked() -> None:
    scene = Scene()
    scene.kubelet.get = "absent"
    assert (await scene.registered.ask(), scene.names()) == (False, [])
    scene.kubelet.get = "offered"
    await scene.registered.ask()
    scene.is_asked = False
    calls = len(scene.kubelet.calls)
    assert (await scene.registered.ask(), scene.names(), len(scene.kubelet.calls)) == (True, [], calls)
    assert not await scene.registered.ask()


async def test_it_asks_at_once_and_every_minute() -> None:
    scene, taken = Scene(), list[list[str]]()

    async def take() -> None:
        taken.append(scene.names())

    tasks = Tasks(lambda error: None)
    tasks.start(scene.registered.watch(take), name="watch")
    await holds("it asked", lambda: scene.clock.waiting == 1)
    scene.offer("card1")
    await scene.clock.advance(POLL_SECONDS - 1)
    assert taken == [["card0"]]
    await scene.clock.advance(1)
    await holds("it asked again", lambda: len(taken) == 2)
    assert taken == [["card0"], ["card1"]]
    await tasks.cancel()
