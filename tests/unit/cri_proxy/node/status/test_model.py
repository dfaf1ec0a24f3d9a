import json
import re
from dataclasses import fields
from pathlib import Path

import pytest

from cri_proxy.codec import FLAT, decode, encode
from cri_proxy.http.routes import build_routes
from cri_proxy.in_force.report import FilesReport, JudgedFile
from cri_proxy.node.status.daemon_view import DaemonView
from cri_proxy.node.status.decision_views import EventView, ExplainView, Explanation, FieldView, HistoryView
from cri_proxy.node.status.inventory import HolderView, InventoryDeviceView, InventoryFileView
from cri_proxy.node.status.model import (
    ConfigurationView,
    ContainerView,
    CostFilesView,
    Health,
    MemoryNodeView,
    RefusedView,
    ReloadView,
    StatusView,
)
from cri_proxy.state.decisions import DecisionRecord, Granted, GrantMove, HistoryEntry, PinningChange, RankedPool
from policies.answers import Default, LargestFit, NodeFit
from policies.base import PoolView
from sysfs.show.cpu_map import CacheDomain, CpuMap, NodeCores, PackageCores
from tests.fakes.views import FixedDaemon, explanation, status_view

PAGE = Path(__file__).parents[5] / "docs" / "reference" / "status.md"


@pytest.mark.parametrize("view", [status_view(), ExplainView((explanation(),)), Health(True, False, ("x",))])
def test_a_view_survives_json(view: object) -> None:
    assert decode(type(view), json.loads(json.dumps(encode(view)))) == view


def test_an_older_command_reads_a_newer_daemons_status() -> None:
    plain = encode(status_view())
    assert isinstance(plain, dict)
    assert decode(StatusView, {**plain, "from_a_later_version": []}) == status_view()


def test_the_fake_is_a_daemon() -> None:
    view: DaemonView = FixedDaemon()
    assert view.health().is_ready


@pytest.mark.parametrize(
    "kind",
    [
        *(StatusView, ConfigurationView, ReloadView, ContainerView, MemoryNodeView, RefusedView, PoolView),
        *(ExplainView, Explanation, DecisionRecord, PinningChange, RankedPool, FieldView, Granted, GrantMove),
        *(HistoryEntry, HistoryView, EventView, Default, CostFilesView, FilesReport, JudgedFile),
        *(InventoryFileView, InventoryDeviceView, HolderView),
        *(LargestFit, NodeFit, CpuMap, PackageCores, NodeCores, CacheDomain),
    ],
)
def test_every_field_is_documented(kind: type) -> None:
    words = set(re.findall(r"`([a-z_0-9]+)`|\"([a-z]+)\"", PAGE.read_text()))
    documented = {word for pair in words for word in pair}
    assert {field.name for field in fields(kind) if field.metadata != FLAT} - documented == set()


def test_every_path_is_documented() -> None:
    assert [path for path in build_routes(FixedDaemon()) if f"`{path}" not in PAGE.read_text()] == []
