import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.runtime.cdi_support import CdiSupport, CdiWay, Choice, support_of, way_of

ON, OFF = '{"enableCDI": true}', '{"enableCDI": false}'
FIELD, ANNOTATION, RESOLVE = CdiWay.FIELD, CdiWay.ANNOTATION, CdiWay.RESOLVE


@pytest.mark.parametrize(
    ("name", "version", "config", "way"),
    [
        ("containerd", "1.6.20~ds1", "{}", RESOLVE),
        ("containerd", "v1.6.33", ON, RESOLVE),  # from another containerd's file: 1.6 has no such option
        ("containerd", "1.7.0", ON, ANNOTATION),
        ("containerd", "v1.7.2", ON, FIELD),
        ("containerd", "v1.7.11-k3s2", OFF, RESOLVE),
        ("containerd", "v1.7.27", "{}", RESOLVE),
        ("containerd", "v2.0.0-rc.1", "", FIELD),
        ("containerd", "v2.1.4", '{"enableCDI": null}', FIELD),
        ("containerd", "2.1.4", OFF, RESOLVE),
        ("containerd", "<unknown>", ON, FIELD),
        ("containerd", "<unknown>", "", RESOLVE),
        ("cri-o", "1.23.1", "", RESOLVE),
        ("cri-o", "1.23.2", "", ANNOTATION),
        ("cri-o", "1.27.9", "", ANNOTATION),
        ("cri-o", "1.28.0", "", FIELD),
        ("cri-o", "1.28", "", FIELD),
        ("cri-o", "head", "", RESOLVE),
        ("cri-proxy-embedded", "1.0", "", FIELD),
        ("docker", "27.0.1", "", RESOLVE),
        ("", "", "", RESOLVE),
    ],
)
def test_version_and_setting_say_how_a_runtime_takes_names(name: str, version: str, config: str, way: CdiWay) -> None:
    found = support_of(name, version, config)
    assert found.way is way
    assert bool(found.remedy) == (way is RESOLVE)


def test_the_reason_names_runtime_version_and_setting() -> None:
    assert support_of("containerd", "1.6.20~ds1", "").why == "containerd 1.6.20~ds1 ignores CDI names"
    assert "enable_cdi = false" in support_of("containerd", "1.7.2", OFF).why
    assert "docker is not known" in support_of("docker", "27", "").why
    assert support_of("", "", "").why == "a runtime without a name is not known to take CDI names"


def test_other_directories_of_specifications_are_told() -> None:
    usual = json.dumps({"enableCDI": True, "cdiSpecDirs": ["/etc/cdi/", "/var/run/cdi"]})
    other = json.dumps({"enableCDI": True, "cdiSpecDirs": ["/etc/cdi", "/opt/cdi"]})
    odd = json.dumps({"cdiSpecDirs": ["/opt/cdi", 3]})
    found = [support_of("containerd", "2.0.0", text).other_directories for text in (usual, other, odd, "{}")]
    assert found == [(), ("/etc/cdi", "/opt/cdi"), ("/opt/cdi",), ()]


@pytest.mark.parametrize(
    ("choice", "known", "way"),
    [
        ("auto", FIELD, FIELD),
        ("auto", ANNOTATION, ANNOTATION),
        ("auto", RESOLVE, RESOLVE),
        ("runtime", RESOLVE, FIELD),
        ("runtime", ANNOTATION, ANNOTATION),
        ("resolve", FIELD, RESOLVE),
    ],
)
def test_the_operator_may_choose_otherwise(choice: Choice, known: CdiWay, way: CdiWay) -> None:
    assert way_of(choice, CdiSupport(known, "")) is way


@given(st.sampled_from(["containerd", "cri-o", "x"]), st.text(max_size=12), st.text(max_size=12))
def test_no_answer_of_a_runtime_makes_it_fail(name: str, version: str, config: str) -> None:
    assert support_of(name, version, config).why
