import pytest
from hypothesis import given
from hypothesis import strategies as st

from cri_proxy.cri.cdi.edits import CdiEdits, CdiHook, CdiMount, CdiNode, CdiProblem, read_edits

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["env", "path", "x"]), inner, max_size=3)
    ),
)


def problem(tree: object) -> str:
    with pytest.raises(CdiProblem) as caught:
        read_edits(tree)
    return str(caught.value)


def node(**fields: object) -> object:
    return {"deviceNodes": [{"path": "/dev/a", **fields}]}


def test_everything_that_has_a_place_in_a_request_is_read() -> None:
    tree = {
        "env": ["A=1", "B=x=y", "C="],
        "deviceNodes": [{"path": "/dev/a"}],
        "mounts": [{"hostPath": "/lib/a", "containerPath": "/lib/b", "options": ["ro"], "type": "bind"}],
        "hooks": [{"hookName": "createContainer", "path": "/bin/x", "args": ["x"], "env": [], "timeout": 5}],
        "additionalGids": [44, 109],
    }
    assert read_edits(tree) == CdiEdits(
        (("A", "1"), ("B", "x=y"), ("C", "")),
        (CdiNode("/dev/a", "/dev/a"),),
        (CdiMount("/lib/a", "/lib/b", ("ro",), "bind"),),
        (CdiHook("createContainer", "/bin/x"),),
        (44, 109),
    )


def test_no_edits_change_nothing() -> None:
    assert read_edits(None) == read_edits({}) == read_edits({"env": None, "intelRdt": None}) == CdiEdits()


def test_a_node_takes_from_the_hosts_what_it_does_not_say() -> None:
    said = node(hostPath="/dev/b", type="c", major=195, minor=3, permissions="rw", fileMode=438, uid=0, gid=44)
    assert read_edits(said).nodes == (CdiNode("/dev/a", "/dev/b", "rw", "c", (195, 3), 438, 0, 44),)
    assert read_edits(node(hostPath="", major=0, minor=7)).nodes == (CdiNode("/dev/a", "/dev/a"),)
    assert read_edits(node(major=195)).nodes == (CdiNode("/dev/a", "/dev/a", number=(195, 0)),)
    assert read_edits(node(permissions="none")).nodes == (CdiNode("/dev/a", "/dev/a", "none"),)


def test_of_a_mode_the_permissions_count() -> None:
    assert [each.mode for each in read_edits(node(fileMode=0o020660)).nodes] == [0o660]


def test_fields_that_no_request_can_name_are_noted() -> None:
    tree = {"intelRdt": {"closID": "x"}, "netDevices": [{"hostInterfaceName": "eth1", "name": "net1"}]}
    assert read_edits(tree).others == ("intelRdt", "netDevices")


def test_the_case_of_a_key_does_not_matter() -> None:
    tree = {"deviceNodes": [{"PATH": "/dev/a", "hostpath": "/dev/b"}], "additionalGIDs": [7]}
    assert read_edits(tree) == CdiEdits(nodes=(CdiNode("/dev/a", "/dev/b"),), group_ids=(7,))


@pytest.mark.parametrize(
    ("tree", "words"),
    [
        ({"seccomp": 1}, "the field 'seccomp' in containerEdits"),
        (node(owner=1), "the field 'owner' in deviceNodes"),
        ([], "something else than fields in containerEdits"),
        ({"mounts": {}}, "something else than a list in mounts"),
        ({"env": ["A"]}, "'A' in env, which is not NAME=VALUE"),
        ({"env": ["=1"]}, "'=1' in env, which is not NAME=VALUE"),
        ({"env": [7]}, "7 as env, which is not a text"),
        ({"env": ["A=\0"]}, "which is not a text"),
        ({"env": ["A=\ud800"]}, "which is not a text"),
        ({"env": ["A=\udfff"]}, "which is not a text"),
        ({"deviceNodes": [{}]}, "'' as path in deviceNodes, which is not an absolute path"),
        (node(hostPath="dev/a"), "'dev/a' as hostPath in deviceNodes"),
        (node(type="x"), "of type 'x'"),
        (node(permissions="rx"), "permissions 'rx'"),
        (node(major=-1), "-1 as major"),
        (node(uid=True), "True as uid"),
        (node(gid="44"), "'44' as gid"),
        ({"mounts": [{"containerPath": "/x"}]}, "the mount /x without a hostPath"),
        ({"mounts": [{"hostPath": "/x"}]}, "'' as containerPath in mounts"),
        ({"additionalGids": [2**32]}, "4294967296 as additionalGids"),
    ],
)
def test_what_the_specification_forbids_is_named(tree: object, words: str) -> None:
    assert words in problem(tree)


def test_the_largest_number_of_a_group_is_one() -> None:
    assert read_edits({"additionalGids": [2**32 - 1]}).group_ids == (2**32 - 1,)


@given(JSON)
def test_no_content_makes_it_fail_in_another_way(tree: object) -> None:
    try:
        read_edits(tree)
    except CdiProblem as error:
        assert str(error).startswith("has ")
