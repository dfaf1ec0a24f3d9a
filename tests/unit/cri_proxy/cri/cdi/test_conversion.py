from collections.abc import Mapping

import pytest

from cri_proxy.cri.cdi.conversion import Given, GivenMount, HostFile, express, paths_of
from cri_proxy.cri.cdi.edits import CdiEdits, CdiHook, CdiMount, CdiNode, CdiProblem

GPU = HostFile("c", (195, 0), 0o666)
HOST = {"/dev/a": GPU, "/dev/disk": HostFile("b", (8, 0)), "/lib/a": HostFile(), "/lib": HostFile("d")}


def of_node(**fields: object) -> Given:
    return express(CdiEdits(nodes=(CdiNode("/dev/x", **{"host_path": "/dev/a", **fields}),)), HOST)  # type: ignore[arg-type]


def of_mount(*options: str, host_path: str = "/lib/a", kind: str = "", host: Mapping[str, HostFile] = HOST) -> Given:
    return express(CdiEdits(mounts=(CdiMount(host_path, "/x", options, kind),)), host)


def refused(edits: CdiEdits) -> str:
    with pytest.raises(CdiProblem) as caught:
        express(edits, HOST)
    return str(caught.value)


def test_a_node_of_the_host_gets_its_name_and_permissions() -> None:
    assert of_node().nodes == (CdiNode("/dev/x", "/dev/a", "rwm"),)
    assert of_node(permissions="r", kind="c", number=(195, 0)).nodes == (
        CdiNode("/dev/x", "/dev/a", "r", "c", (195, 0)),
    )
    assert of_node(kind="u").nodes == (CdiNode("/dev/x", "/dev/a", kind="u"),)  # unbuffered: the same to the kernel


@pytest.mark.parametrize(
    ("fields", "words"),
    [
        ({"number": (195, 7)}, "as c 195:7, and the host's /dev/a is c 195:0"),
        ({"kind": "b"}, "as b 195:0, and the host's /dev/a is c 195:0"),
        ({"host_path": "/dev/none"}, "the host has no /dev/none"),
        ({"host_path": "/dev/none", "number": (1, 5), "kind": "c"}, "/dev/x as c 1:5, the host has no /dev/none"),
        ({"host_path": "/dev/none", "number": (1, 5)}, "/dev/x as a device 1:5, the host has no /dev/none"),
        ({"host_path": "/lib"}, "the host's /lib is no device"),
        ({"kind": "p"}, "a FIFO"),
        ({"permissions": "none"}, "which has no permissions"),
    ],
)
def test_a_node_that_is_no_node_of_the_host_is_refused(fields: dict[str, object], words: str) -> None:
    with pytest.raises(CdiProblem) as caught:
        of_node(**fields)
    assert words in str(caught.value)


def test_what_differs_of_owner_and_mode_is_noted() -> None:
    assert of_node(mode=0o666, uid=0, gid=0).notes == ()
    assert of_node(mode=0o660, gid=44).notes == ("/dev/x has the host's mode 0666 for 0660, gid 0 for 44",)


@pytest.mark.parametrize(
    ("options", "mount"),
    [
        ((), GivenMount("/x", "/lib/a")),
        (("ro", "bind"), GivenMount("/x", "/lib/a", is_readonly=True)),
        (("ro", "rw"), GivenMount("/x", "/lib/a")),
        (("rw", "ro"), GivenMount("/x", "/lib/a", is_readonly=True)),
        (("rbind", "rslave"), GivenMount("/x", "/lib/a", propagation="host-to-container")),
        (("private", "rshared"), GivenMount("/x", "/lib/a", propagation="bidirectional")),
    ],
)
def test_read_only_and_propagation_are_kept_and_the_last_counts(options: tuple[str, ...], mount: GivenMount) -> None:
    assert of_mount(*options) == Given(mounts=(mount,))


def test_restrictions_without_a_place_in_a_request_are_left_out_and_noted_together() -> None:
    options = ("ro", "nosuid", "nodev", "bind")
    mounts = tuple(CdiMount("/lib/a", f"/lib/{name}", options) for name in "abc")
    assert express(CdiEdits(mounts=mounts), HOST).notes == ("mounted without nosuid, nodev: /lib/a and 2 more",)


def test_a_directory_brings_what_is_mounted_below_it() -> None:
    assert of_mount("bind", host_path="/lib").notes == ("/x shows what is mounted below /lib too",)
    assert of_mount("rbind", host_path="/lib").notes == of_mount("bind").notes == ()
    assert of_mount("bind", "rbind", host_path="/lib").notes == of_mount(host_path="/lib").notes == ()


@pytest.mark.parametrize("option", ["rro", "size=1m", "unbindable", "idmap", ""])
def test_an_option_that_is_neither_is_refused(option: str) -> None:
    assert f"the option {option!r}" in refused(CdiEdits(mounts=(CdiMount("/lib/a", "/x", (option,)),)))


def test_only_bind_mounts_of_what_the_host_has_can_be_given() -> None:
    assert "of type tmpfs" in refused(CdiEdits(mounts=(CdiMount("tmpfs", "/x", (), "tmpfs"),)))
    assert "of /none, which the host does not have" in refused(CdiEdits(mounts=(CdiMount("/none", "/x"),)))
    assert "not an absolute path" in refused(CdiEdits(mounts=(CdiMount("lib", "/x"),)))


def test_a_hook_is_refused_by_its_name() -> None:
    assert refused(CdiEdits(hooks=(CdiHook("createContainer", "/usr/bin/nvidia-ctk"),))) == (
        "has the createContainer hook /usr/bin/nvidia-ctk, and no request to a runtime can name a hook"
    )


def test_what_has_no_field_at_all_is_refused() -> None:
    assert refused(CdiEdits(others=("intelRdt",))) == "has intelRdt, which no request to a runtime can name"


def test_groups_are_given_once_and_roots_never() -> None:
    assert express(CdiEdits(group_ids=(44, 0, 44, 7)), {}).group_ids == (44, 7)


def test_the_hosts_files_to_look_at_are_those_of_nodes_and_mounts() -> None:
    edits = CdiEdits(nodes=(CdiNode("/dev/x", "/dev/a"),), mounts=(CdiMount("/lib/a", "/x"), CdiMount("/dev/a", "/y")))
    assert paths_of(edits) == ("/dev/a", "/lib/a")
