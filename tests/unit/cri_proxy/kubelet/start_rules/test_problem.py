from cri_proxy.kubelet.start_rules.problem import StartHost, listed, removal, state_edit
from tests.fakes.kubelet_starts import OPTIONS, settings


def test_a_version_is_named_as_people_write_it() -> None:
    assert (StartHost((1, 36)).named, StartHost().named) == ("1.36", "")


def test_options_go_from_every_place_that_has_them() -> None:
    edits = removal(settings(OPTIONS, drop_in=OPTIONS), "cpuManagerPolicyOptions")
    assert {edit.place for edit in edits} == {"/k.yaml", "/k.d/20.conf"}
    edits = removal(settings(OPTIONS, "--cpu-manager-policy-options=full-pcpus-only=true"), "cpuManagerPolicyOptions")
    assert [str(edit) for edit in edits] == [
        "remove --cpu-manager-policy-options from /k.env",
        "remove cpuManagerPolicyOptions from /k.yaml",
    ]


def test_state_lies_in_the_kubelets_directory() -> None:
    assert str(state_edit(settings("", "--root-dir=/k"), "cpu")) == "delete /k/cpu_manager_state"


def test_settings_are_listed_with_their_places() -> None:
    found = settings("memoryManagerPolicy: Static")
    both = [found.get("memoryManagerPolicy"), found.get("cpuManagerPolicy")]
    assert listed(both) == "memoryManagerPolicy: Static (/k.yaml) and cpuManagerPolicy: none (the default)"
