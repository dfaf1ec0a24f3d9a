import json
import os
import stat
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cri_proxy.config.last_known_good import KNOWN_GOOD, KnownGood, find_known_good
from cri_proxy.config.layouts import MAX_BYTES
from cri_proxy.config.load import parse_config
from cri_proxy.config.model import Config, known_options
from cri_proxy.config.option import Known, read_value
from cri_proxy.config.values import with_values
from cri_proxy.errors import StoreError

PATH = Path("/etc/cri-proxy")
KEPT = KnownGood(parse_config("adopt: leave"), PATH, PATH / "default.yaml", "rt", "ab" * 32, 1_700_000_000.25)

# What the options that read their text themselves may hold, and odd numbers; the others are told by their type.
TEXTS: dict[str, tuple[str, ...]] = {
    "availableResources.cpu": ("cpuset:0-3,8", "exclude-cpuset:0", "/kubepods", "kubepods/x"),
    "reservedResources.cpu": ("750m", "2", "cpuset:0", "exclude-cpuset:4-5"),
    "reservedResources.memory": ("2Gi", "0-1=1Gi", "3=512Mi"),
    "topologyAware.PoolWeights": ("cpu=1", "memory=100", "cpu=0"),
    "topologyAware.DeviceCPUs": ("avoid", "ignore", "keep=8"),
    "memoryKinds": ("2-3=pmem", "0=hbm", "1=dram"),
    "driftCheckSeconds": ("0", "2.5", "86400", "1.000000001"),
    "annotationDomains": ("cri-proxy.io", "a.b"),
    "threadCounts.variables": ("GOMAXPROCS", "_a1"),
    "restrictedAnnotations": ("keys=cpu.preserve namespaces=", "keys=hyperthreads,notify-exec namespaces=a,b-*"),
    "listen": ("/run/x.sock",),
    "runtimeEndpoint": ("embedded", "unix:///run/crio/crio.sock"),
    "imageListen": ("", "/run/i.sock"),
    "podResourcesListen": ("", "/run/p/kubelet.sock"),
    "nodeTopologyFile": ("", "/run/topology.json"),
    "imageEndpoint": ("", "/run/j.sock"),
    "stateDir": ("/srv/state",),
    "kubeletRoot": ("/srv/kubelet",),
    "sysfsRoot": ("/srv/machine",),
    "http": ("off", "[::1]:80"),
    "topologyManager.max-allowable-numa-nodes": ("0", "8", "64"),
    "topologyAware.MovesPerCheck": ("0", "64"),
    "httpTLS.certificate": ("", "/etc/tls.crt"),
    "httpTLS.key": ("", "/etc/tls.key"),
    "httpTLS.tokenFile": ("", "/etc/tokens"),
    "nodeName": ("", "worker-7"),
    "nodeGroup": ("", "rt"),
    "costs.dir": ("", "/etc/costs"),
    "devices.inventory": ("", "/etc/devices.yaml"),
    "devices.health": ("", "/run/health"),
}


def texts(known: Known) -> st.SearchStrategy[str]:
    if known.option.read is not None or known.key in TEXTS:
        return st.sampled_from(TEXTS[known.key])
    if known.type in (int, float):
        return st.sampled_from((str(known.option.least), str(known.option.most or known.option.least + 7)))
    if known.type is bool:
        return st.sampled_from(("true", "false"))
    return st.sampled_from(known.choices) if known.choices else st.text()


def values(known: Known) -> st.SearchStrategy[object]:
    if known.is_list:
        return st.lists(texts(known), max_size=3).map(lambda found: read_value(known, tuple(found)))
    return texts(known).map(lambda text: read_value(known, text))


CONFIGS = st.lists(st.sampled_from(known_options()).flatmap(lambda k: st.tuples(st.just(k), values(k)))).map(
    lambda chosen: with_values(Config(), chosen)
)


@settings(deadline=None)
@given(CONFIGS, st.floats(0, 1e10), st.text(max_size=9))
def test_every_configuration_comes_back_as_it_was(config: Config, since: float, group: str) -> None:
    kept = replace(KEPT, config=config, since_seconds=since, group=group)
    found = KNOWN_GOOD.decode(json.dumps(KNOWN_GOOD.document(kept)).encode(), "f")
    assert (found, found.since_seconds) == (kept, since)


@settings(deadline=None)
@given(st.binary(max_size=200) | st.recursive(st.none() | st.text(), st.lists).map(lambda v: json.dumps(v).encode()))
def test_garbage_is_refused_with_its_file_and_never_worse(raw: bytes) -> None:
    with pytest.raises(StoreError, match=r"^f: "):
        KNOWN_GOOD.decode(raw, "f")


def changed(**fields: object) -> bytes:
    return json.dumps({**KNOWN_GOOD.document(KEPT), **fields}).encode()


@pytest.mark.parametrize(
    ("raw", "problem"),
    [
        (changed(version=2), "not as this version of cri-proxy writes it"),
        (changed(options={"adpot": "pin"}), "adpot: unknown option: another version"),
        (changed(options={"adopt": "kill"}), "adopt: expected one of pin, leave, got 'kill'"),
        (changed(options={"adopt": None}), "adopt: expected a string or a list of strings, got None"),
        (changed(options={"annotationDomains": [1]}), "annotationDomains: expected a string or a list"),
        (changed(options=[]), "options: expected an object"),
        (changed(path=7), "not as this version of cri-proxy writes it"),
        (changed(since_seconds=float("inf")), "since_seconds: expected seconds since the epoch, got inf"),
        (changed(since_seconds=float("nan")), "since_seconds: expected seconds since the epoch, got nan"),
        (b"[" * 100_000, "not JSON"),
        (b" " * (MAX_BYTES + 1), f"larger than {MAX_BYTES} bytes"),
    ],
)
def test_what_was_not_written_by_us_is_named(raw: bytes, problem: str) -> None:
    with pytest.raises(StoreError, match=problem):
        KNOWN_GOOD.decode(raw, "f")


def test_an_option_that_was_kept_under_a_former_key_is_understood() -> None:
    kept = KNOWN_GOOD.decode(changed(options={"tellContainers": "never"}), "f")
    assert kept.config == parse_config("resourceFiles: never")


def test_only_what_is_not_a_default_is_written() -> None:
    assert KNOWN_GOOD.document(KEPT)["options"] == {"adopt": "leave"}


def test_what_was_kept_is_found_by_who_names_the_same_path(tmp_path: Path) -> None:
    KNOWN_GOOD.save(tmp_path / "state", KEPT)
    assert find_known_good(tmp_path / "state", PATH) == KEPT
    assert find_known_good(tmp_path / "state", PATH / "default.yaml") is None


def test_where_nothing_was_kept_nothing_is_found_and_nothing_made(tmp_path: Path) -> None:
    assert find_known_good(tmp_path / "state", PATH) is None
    assert list(tmp_path.iterdir()) == []


def test_what_is_kept_is_ours_alone(tmp_path: Path) -> None:
    KNOWN_GOOD.save(tmp_path, KEPT)
    assert [(path.name, stat.S_IMODE(path.stat().st_mode)) for path in tmp_path.iterdir()] == [(KNOWN_GOOD.name, 0o600)]


def test_the_same_again_leaves_the_time_and_the_file_alone(tmp_path: Path) -> None:
    KNOWN_GOOD.save(tmp_path, KEPT)
    before = (tmp_path / KNOWN_GOOD.name).stat().st_ino
    KNOWN_GOOD.save(tmp_path, replace(KEPT, since_seconds=1_800_000_000.0))
    found = find_known_good(tmp_path, PATH)
    assert found is not None
    assert (found.since, (tmp_path / KNOWN_GOOD.name).stat().st_ino) == (KEPT.since, before)


def test_another_one_takes_its_place_at_once(tmp_path: Path) -> None:
    """Who has the old file open still reads it: the new one is another file under its name."""
    KNOWN_GOOD.save(tmp_path, KEPT)
    other = replace(KEPT, config=Config())
    with (tmp_path / KNOWN_GOOD.name).open() as old:
        KNOWN_GOOD.save(tmp_path, other)
        assert json.load(old) == KNOWN_GOOD.document(KEPT)
    assert find_known_good(tmp_path, PATH) == other


def test_what_a_killed_process_left_half_written_is_in_nobodys_way(tmp_path: Path) -> None:
    KNOWN_GOOD.save(tmp_path, KEPT)
    (tmp_path / f".{KNOWN_GOOD.name}.new").write_text('{"version": 1, "pa')
    assert find_known_good(tmp_path, PATH) == KEPT
    KNOWN_GOOD.save(tmp_path, replace(KEPT, config=Config()))
    assert [path.name for path in tmp_path.iterdir()] == [KNOWN_GOOD.name]


def damage(file: Path) -> None:
    file.write_text("{")


def link(file: Path) -> None:
    file.rename(file.with_name("elsewhere"))
    file.symlink_to("elsewhere")


def open_up(file: Path) -> None:
    file.chmod(0o666)


def pipe(file: Path) -> None:
    file.unlink()
    os.mkfifo(file, 0o600)


@pytest.mark.parametrize("spoil", [damage, link, open_up, pipe])
def test_what_others_could_have_written_is_refused_and_named(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    KNOWN_GOOD.save(tmp_path, KEPT)
    spoil(tmp_path / KNOWN_GOOD.name)
    with pytest.raises(StoreError, match=f"{tmp_path}/{KNOWN_GOOD.name}: "):
        find_known_good(tmp_path, PATH)


@pytest.mark.parametrize("spoil", [damage, link, open_up])
def test_it_is_replaced_by_the_next_that_is_kept(tmp_path: Path, spoil: Callable[[Path], None]) -> None:
    KNOWN_GOOD.save(tmp_path, KEPT)
    spoil(tmp_path / KNOWN_GOOD.name)
    KNOWN_GOOD.save(tmp_path, KEPT)
    assert find_known_good(tmp_path, PATH) == KEPT
    assert not (tmp_path / KNOWN_GOOD.name).is_symlink()


def test_nothing_is_written_where_others_could_write(tmp_path: Path) -> None:
    tmp_path.chmod(0o777)
    with pytest.raises(StoreError, match="chmod go-w"):
        KNOWN_GOOD.save(tmp_path, KEPT)
    assert list(tmp_path.iterdir()) == []


def test_a_link_in_the_place_of_the_new_file_is_not_followed(tmp_path: Path) -> None:
    (tmp_path / f".{KNOWN_GOOD.name}.new").symlink_to(tmp_path / "victim")
    KNOWN_GOOD.save(tmp_path, KEPT)
    assert [path.name for path in tmp_path.iterdir()] == [KNOWN_GOOD.name]


def test_a_place_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / KNOWN_GOOD.name).mkdir()
    with pytest.raises(StoreError, match=f"{KNOWN_GOOD.name}: cannot write: Is a directory"):
        KNOWN_GOOD.save(tmp_path, KEPT)
