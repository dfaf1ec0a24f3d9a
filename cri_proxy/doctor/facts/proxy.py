"""Ask the daemon of cri-proxy what it is and uses; where none answers, read its configuration as a start would."""

import json
import socket
import stat
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from cri_proxy.config.load import load_config, parse_config
from cri_proxy.config.model import Config
from cri_proxy.config.resolve import policy_options
from cri_proxy.config.settings import ADMIN_SOCKET
from cri_proxy.doctor.facts.model import Access, HardwareFacts, ProxyFacts
from cri_proxy.errors import ConfigError
from cri_proxy.http.client import DaemonUnreachable, ask
from cri_proxy.kubelet.reservation import NodeCpus
from cri_proxy.kubelet.unit import DIRECTORIES
from cri_proxy.private_files import shared_problem
from cri_proxy.unix_socket import socket_path
from policies.builder import build_policy
from sysfs.cpuset import NodeSet
from sysfs.discover import discover

UNIT: Final = "cri-proxy.service"
SOCKET_UNIT: Final = "cri-proxy.socket"
# An HTTP/2 client's first bytes (RFC 9113, 3.4): the relay passes on the runtime's answer.
_HELLO: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])
_SECONDS: Final = 5.0


@dataclass(frozen=True, slots=True)
class DaemonAnswers:
    """The state that the daemon reports, and its configuration: that of the file where no daemon answers."""

    proxy: ProxyFacts
    config: Config
    config_file: str = ""


def ask_daemon(root: Path, admin: Path, config: Path) -> DaemonAnswers:
    """Return the state of the daemon behind this admin socket, else of ``config``, both below ``root``."""
    place = root / str(admin).lstrip("/")
    try:
        text = json.dumps(ask(place, "/api/v1/config"))
        status, ready = ask(place, "/api/v1/status"), ask(place, "/readyz", {"format": "json"})
        in_force = parse_config(text, "the daemon's configuration")
    except (DaemonUnreachable, ConfigError) as error:
        return _from_file(root, config, unreachable=str(error))
    cdi, inventory = _at(status, "cdi"), _at(status, "inventory_file")
    proxy = ProxyFacts(
        is_running=True,
        problems=_texts(ready, "problems"),
        node_name=str(_at(status, "node") or ""),
        cost_problems=(*_file_problems(_at(status, "costs")), *_file_problems(inventory)),
        disagreements=_texts(inventory, "disagreements"),
        held_twice=_texts(status, "held_twice"),
        shows_gpus=_at(inventory, "shows_gpus") is True,
        health_problem=str(_at(inventory, "health_problem") or ""),
        cdi=str(_at(cdi, "text") or ""),
        cdi_problems=_texts(cdi, "problems"),
    )
    return DaemonAnswers(proxy, in_force, str(_at(_at(status, "configuration"), "file") or ""))


def _file_problems(view: object) -> Iterator[str]:
    """Yield the problems of cost files, or of the inventory file, as the daemon's status has them."""
    directory, files = _at(view, "directory"), _at(view, "files")
    place = _at(view, "file") if directory is None else directory
    for each in (view, *(files if isinstance(files, list) else ())):
        if problem := _at(each, "problem"):
            name = "" if directory is None or each is view else f"/{_at(each, 'name')}"
            line = _at(each, "line")
            yield f"{place}{name}{f':{line}' if line else ''}: {problem}"


def _at(plain: object, key: str) -> object:
    return plain.get(key) if isinstance(plain, dict) else None


def _texts(plain: object, key: str) -> tuple[str, ...]:
    found = _at(plain, key)
    return tuple(map(str, found)) if isinstance(found, list) else ()


def _from_file(root: Path, config: Path, *, unreachable: str) -> DaemonAnswers:
    path, proxy = root / str(config).lstrip("/"), ProxyFacts(unreachable=unreachable)
    if not path.exists():
        return DaemonAnswers(proxy, Config())
    try:
        return DaemonAnswers(proxy, load_config(path).config, str(config))
    except ConfigError as error:
        return DaemonAnswers(replace(proxy, unusable=str(error)), Config(), str(config))


def silence_of(path: Path) -> str:
    """Return why a call through the proxy's socket gets no answer of the runtime, '' when it gets one."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_SECONDS)
            client.connect(str(path))
            client.sendall(_HELLO)
            return "" if client.recv(1) else "the connection is closed: the runtime behind cri-proxy does not answer"
    except TimeoutError:
        return f"no answer within {_SECONDS:.0f} seconds: the runtime behind cri-proxy does not answer"
    except OSError as error:
        return error.strerror or str(error)


def refusal_of(path: Path) -> str:
    """Return why this socket takes no connection, '' when it does."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(_SECONDS)
            client.connect(str(path))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def is_enabled(root: Path, kubelet_unit: tuple[str, ...]) -> bool | None:
    """Return whether a boot starts the proxy: its unit, its socket's, or the kubelet's that wants it.

    None where systemd has no unit of it.
    """
    if not any((root / directory / UNIT).exists() for directory in DIRECTORIES):
        return None
    # The links that ``systemctl enable`` makes.
    links = (link for kind in ("wants", "requires") for link in (root / "etc/systemd/system").glob(f"*.{kind}/*"))
    if any(link.name in (UNIT, SOCKET_UNIT) for link in links):
        return True
    return any(_wants(root / path.lstrip("/")) for path in kubelet_unit)


def _wants(path: Path) -> bool:
    with suppress(OSError):
        lines = (line.partition("=") for line in path.read_text(errors="replace").splitlines())
        return any(key.strip() in ("Wants", "Requires") and UNIT in value.split() for key, _, value in lines)
    return False


def read_access(root: Path, config: Config, config_file: str) -> Iterator[Access]:
    """Yield the sockets, the state and the configuration with why others than root could change or use them."""
    listen = socket_path(config.listen)
    runtime = socket_path(config.runtime_endpoint)
    yield from _socket_access(root, listen, runtime)
    yield from _socket_access(root, listen.with_name(ADMIN_SOCKET), None)
    paths = [Path(config.state_dir), Path(config.state_dir) / "state.db"]
    paths += [Path(config_file), Path(config_file).parent] if config_file else []
    for path in paths:
        with suppress(OSError):
            yield Access(str(path), shared_problem((root / str(path).lstrip("/")).stat(), path))


def _socket_access(root: Path, path: Path, model: Path | None) -> Iterator[Access]:
    """Yield a socket that more users can connect to than to the one that it stands in for; None: root alone."""
    with suppress(OSError):
        status = (root / str(path).lstrip("/")).stat()
        allowed = 0
        if model is not None:
            with suppress(OSError):
                original = (root / str(model).lstrip("/")).stat()
                allowed = original.st_mode & 0o077
        extra = stat.S_IMODE(status.st_mode) & 0o022 & ~allowed  # connect(2) needs write permission
        remedy = f"chmod {0o600 | allowed:04o} {path}, and restart cri-proxy"
        problem = f"has mode {stat.S_IMODE(status.st_mode):04o}, others than root can connect to it: {remedy}"
        yield Access(str(path), problem if extra else "")


def node_cpus(root: Path, config: Config) -> tuple[NodeCpus, HardwareFacts]:
    """Return the CPUs of the machine below ``root`` as this configuration divides them, and what else it has.

    Raises ConfigError and SysfsBaseError.
    """
    place = root / config.sysfs_root.lstrip("/")
    machine = discover(place)
    options = policy_options(config, machine, place).options
    kept = build_policy(config.policy, machine, options).kept_cpus
    memory_bytes = sum(node.memory_bytes for node in machine.nodes)
    hardware = HardwareFacts(NodeSet.of(node.id for node in machine.nodes), len(machine.packages), memory_bytes)
    return NodeCpus(machine.online, options.available, options.reserved, machine.isolated, kept), hardware
