from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.config.files.configmap_volume import publish
from cri_proxy.config.files.location import GROUP_FILE, ConfigLocation
from cri_proxy.kube_api.nodes import ListedNode
from cri_proxy.rollout.digests import digest_of_all, expected_of

NAMES = ["cri-proxy.yaml", "node.w1.yaml", "node.w1", "group.rt.yaml", "default.yaml", "default", "policy", "logger"]
LABELS = ["cri-proxy.io/group", "config.nri/group", "cri-resource-manager.intel.com/group", "pool"]
# A volume of the kubelet's has no name that begins with two dots, and our agent writes the group itself.
FILES = st.dictionaries(st.sampled_from(NAMES), st.text(max_size=20).map(str.encode), min_size=1)


@given(FILES, st.dictionaries(st.sampled_from(LABELS), st.sampled_from(["rt", "web"]), max_size=2))
def test_it_is_the_digest_that_the_daemon_of_that_node_reads(files: dict[str, bytes], labels: dict[str, str]) -> None:
    group = next((labels[key] for key in LABELS[:3] if key in labels), "")
    written = {**files, GROUP_FILE: group.encode()} if group else files
    with TemporaryDirectory() as directory:
        publish(Path(directory) / "d", written)
        source = ConfigLocation(Path(directory) / "d", "w1").read()
    file, digest = expected_of(ListedNode("w1", labels), files)
    assert digest == source.digest
    assert bool(file) == (not source.problem)


def test_a_label_that_is_no_name_is_no_group() -> None:
    assert expected_of(ListedNode("w1", {"cri-proxy.io/group": "../x"}), {"default": b"1"})[0] == "default"


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ({"a": b"1"}, {"a": b"2"}),
        ({"a": b"1"}, {"b": b"1"}),
        ({"a": b"1"}, {"a": b"1", "b": b""}),
        ({"a": b"1", "b": b"2"}, {"a": b"2", "b": b"1"}),
    ],
)
def test_another_content_has_another_digest(one: Mapping[str, bytes], other: Mapping[str, bytes]) -> None:
    assert digest_of_all(one) != digest_of_all(other)
    assert digest_of_all(one) == digest_of_all(dict(sorted(one.items(), reverse=True)))
