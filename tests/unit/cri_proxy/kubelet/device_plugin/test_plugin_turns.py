"""Changes that come at the same time are served one after the other."""

import threading
from pathlib import Path

import pytest

from cri_proxy.inventory.health_source import HealthSource
from cri_proxy.inventory.health_watch import HEALTH_SECONDS
from cri_proxy.kubelet.device_plugin.resource import ServedResource, served_resource
from cri_proxy.kubelet.device_plugin.settings import PluginResource
from cri_proxy.kubelet.device_plugin.sources import PluginKnowledge, PluginSources
from policies.devices import DeviceInventory
from tests.fakes.device_kubelet import DeviceKubelet
from tests.fakes.waiting import holds
from tests.unit.cri_proxy.kubelet.device_plugin.stage import running, settings_of

GPU = "cri-proxy.io/gpu"


async def test_a_change_of_health_waits_until_a_change_of_the_inventory_is_served(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else the health that the first one began with would be served last."""
    inventory, report, kubelet = tmp_path / "devices.yaml", tmp_path / "health", DeviceKubelet(tmp_path / "plugins")
    await kubelet.start()
    inventory.write_text("gpu: [{minor: 0}, {minor: 1}]\n")
    report.write_text("gpu 0 ok\n")
    goes_on, entered = threading.Event(), list[str]()
    goes_on.set()

    def slowly(resource: PluginResource, inventory: DeviceInventory, known: PluginKnowledge) -> ServedResource:
        entered.append(resource.name)
        assert goes_on.wait(20)
        return served_resource(resource, inventory, known)

    monkeypatch.setattr("cri_proxy.kubelet.device_plugin.plugin.served_resource", slowly)
    sources = PluginSources(inventory, sysfs_root=tmp_path)
    settings = settings_of(tmp_path / "plugins", sources, health=HealthSource(str(report)))
    async with running(settings) as plugin:
        await holds("the kubelet knows it", lambda: kubelet.knows(GPU))
        goes_on.clear()
        entered.clear()
        inventory.write_text("gpu: [{minor: 0}, {minor: 1}, {minor: 2}]\n")
        await holds("the inventory is being served", lambda: len(entered) == 1)
        report.write_text("gpu 0 unhealthy fan\n")
        polls = plugin.clock.slept.count(HEALTH_SECONDS)
        await holds("health was asked", lambda: plugin.clock.slept.count(HEALTH_SECONDS) >= polls + 3)
        assert len(entered) == 1
        goes_on.set()
        await holds("both are served", lambda: kubelet.plugins[GPU].healthy == ("gpu-1", "gpu-2"))
    await kubelet.stop()
