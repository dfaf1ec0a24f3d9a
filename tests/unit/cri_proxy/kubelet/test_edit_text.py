"""The text of a kubelet's file after an edit: one line of it differs, and every comment stays."""

import pytest
import yaml

from cri_proxy.kubelet.edit_text import edited
from cri_proxy.kubelet.edits import Edit

ENDPOINT = "unix:///run/cri-proxy/cri-proxy.sock"
CONFIG = Edit("/k.yaml", "containerRuntimeEndpoint", ENDPOINT)
ARG = Edit("/etc/rancher/k3s/config.yaml", "kubelet-arg container-runtime-endpoint", ENDPOINT)


@pytest.mark.parametrize(
    ("text", "edit", "expected"),
    [
        ("a: 1 # x\n", CONFIG, f"a: 1 # x\ncontainerRuntimeEndpoint: {ENDPOINT}\n"),
        ("containerRuntimeEndpoint: unix:///c\n# x\n", CONFIG, f"containerRuntimeEndpoint: {ENDPOINT}\n# x\n"),
        (f"containerRuntimeEndpoint: {ENDPOINT} # ours\n", CONFIG, f"containerRuntimeEndpoint: {ENDPOINT} # ours\n"),
        ("", ARG, f"kubelet-arg:\n- container-runtime-endpoint={ENDPOINT}\n"),
        (
            "# k3s\nkubelet-arg:\n  - v=2 # less\n",
            ARG,
            f"# k3s\nkubelet-arg:\n  - container-runtime-endpoint={ENDPOINT}\n  - v=2 # less\n",
        ),
        (
            'kubelet-arg:\n- "container-runtime-endpoint=unix:///c"\n- v=2\n',
            ARG,
            f"kubelet-arg:\n- container-runtime-endpoint={ENDPOINT}\n- v=2\n",
        ),
        (
            'A="--container-runtime-endpoint=unix:///c --v=2"\n',
            Edit("/k.env", "--container-runtime-endpoint", ENDPOINT),
            f'A="--container-runtime-endpoint={ENDPOINT} --v=2"\n',
        ),
        (
            "--root-dir=/x\n",
            Edit("/args", "--container-runtime-endpoint", ENDPOINT),
            f"--root-dir=/x --container-runtime-endpoint={ENDPOINT}\n",
        ),
    ],
)
def test_one_line_differs(text: str, edit: Edit, expected: str) -> None:
    assert edited(text, edit) == expected
    assert edited(expected, edit) == expected


@pytest.mark.parametrize("text", ["# a\nb: 1\n", "# a\nkubelet-arg:\n- v=2\n"])
@pytest.mark.parametrize("edit", [CONFIG, ARG])
def test_taking_the_key_away_gives_the_text_back(text: str, edit: Edit) -> None:
    there = edited(text, edit)
    assert yaml.safe_load(edited(there, Edit(edit.place, edit.key))) == yaml.safe_load(text)
    assert "# a" in edited(there, Edit(edit.place, edit.key))


def test_a_value_over_several_lines_is_written_again_as_a_whole() -> None:
    text = "containerRuntimeEndpoint:\n  unix:///c\na: [1]\n"
    assert yaml.safe_load(edited(text, CONFIG)) == {"containerRuntimeEndpoint": ENDPOINT, "a": [1]}


def test_json_stays_json() -> None:
    assert edited('{"a": 1}', CONFIG) == f'{{\n  "a": 1,\n  "containerRuntimeEndpoint": "{ENDPOINT}"\n}}\n'


def test_a_text_that_is_no_configuration_is_refused() -> None:
    for text in ("- a\n", "a: [\n"):
        with pytest.raises(ValueError, match=r"expected a mapping|not YAML"):
            edited(text, CONFIG)
