#!/usr/bin/python3
"""Tell whether this node's kubelet talks to cri-proxy, and whether it will after its next start. Reads only.

Needs psutil: the Debian package brings it, elsewhere run this with the Python that cri-proxy is installed in. Exit
status: 0 wired, 1 not (what to change is printed), 2 not known: psutil is missing, or wrong usage.

Where the endpoint may stand, the strongest first: the kubelet takes the last flag of its command line, which kubeadm's
unit ends with $KUBELET_KUBEADM_ARGS $KUBELET_EXTRA_ARGS, and a flag beats the file.
"""

import argparse
import contextlib
import re
import shlex
import socket
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

sys.path.append("/usr/lib/cri-proxy")  # the Debian package's; what this Python has itself comes first
try:
    import psutil
except ImportError:
    print("psutil is missing: run this with the Python of cri-proxy's own environment", file=sys.stderr)
    sys.exit(2)

ENDPOINT = "unix:///run/cri-proxy/cri-proxy.sock"
FLAG = "--container-runtime-endpoint"
ANNOTATION = "kubeadm.alpha.kubernetes.io/cri-socket"
# EnvironmentFile= beats Environment=; Debian's kubelet package reads the first, RPMs the second.
ENVIRONMENT_FILES = ("etc/default/kubelet", "etc/sysconfig/kubelet")
UNITS = ("usr/lib/systemd/system", "lib/systemd/system", "run/systemd/system", "etc/systemd/system")
KUBEADM_FLAGS = "var/lib/kubelet/kubeadm-flags.env"
KUBELET_CONFIG = "var/lib/kubelet/config.yaml"
# kubeadm since 1.32 keeps a node's own endpoint here and rewrites it into the kubelet's configuration.
KUBEADM_INSTANCE = "var/lib/kubelet/instance-config.yaml"
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0])


@dataclass(frozen=True)
class Found:
    """An endpoint and the file, or process, that gives it."""

    where: str
    endpoint: str


def read(path: Path) -> str:
    """Return the file's text, '' where there is none to read."""
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""


def endpoint_in(words: list[str]) -> str:
    """Return the endpoint of a command line; of several flags the last; '' for none."""
    found = ""
    for at, word in enumerate(words):
        if word == FLAG:
            found = "".join(words[at + 1 : at + 2])
        elif word.startswith(f"{FLAG}="):
            found = word.partition("=")[2]
    return found


def variable(text: str, name: str) -> str | None:
    """Return the value of this variable in an environment file; None where it is not set."""
    value = None
    for line in text.splitlines():
        key, equals, rest = line.strip().partition("=")
        if equals and key.removeprefix("export ").strip() == name:
            value = " ".join(shlex.split(rest, comments=True))
    return value


def in_drop_ins(root: Path) -> Found | None:
    """Return KUBELET_EXTRA_ARGS as drop-ins of the kubelet's unit set it; None where none does."""
    found = None
    drop_ins = {d.name: d for unit in UNITS for d in sorted((root / unit / "kubelet.service.d").glob("*.conf"))}
    for _, path in sorted(drop_ins.items()):
        for assignments in re.findall(r"^Environment=(.*)$", read(path), re.MULTILINE):
            for assignment in shlex.split(assignments):
                name, _, value = assignment.partition("=")
                if name == "KUBELET_EXTRA_ARGS":
                    found = Found(f"/{path.relative_to(root)}", endpoint_in(shlex.split(value)))
    return found


def in_environment_files(root: Path) -> Found | None:
    """Return KUBELET_EXTRA_ARGS as the environment files set it, the last one wins; None where none does."""
    found = None
    for file in ENVIRONMENT_FILES:
        value = variable(read(root / file), "KUBELET_EXTRA_ARGS")
        if value is not None:
            found = Found(f"/{file}", endpoint_in(shlex.split(value)))
    return found


def extra_args(root: Path) -> Found | None:
    """Return KUBELET_EXTRA_ARGS as the kubelet's unit gets them: a file's, else a drop-in's."""
    return in_environment_files(root) or in_drop_ins(root)


def shadowed(root: Path, wanted: str) -> str:
    """Return why a drop-in that names the proxy has no effect, '' where it has one or there is none.

    The packages of pkgs.k8s.io install the environment file with an empty value.
    """
    file, drop_in = in_environment_files(root), in_drop_ins(root)
    if file is None or file.endpoint or drop_in is None or not is_proxy(drop_in.endpoint, wanted):
        return ""
    return f"{file.where}: sets KUBELET_EXTRA_ARGS, so {drop_in.where} has no effect: add {FLAG}={wanted} to the value"


def in_yaml(root: Path, file: str) -> Found:
    """Return ``containerRuntimeEndpoint`` of a kubelet configuration, '' when it is not set."""
    match = re.search(r"^containerRuntimeEndpoint:[ \t]*(\S*)", read(root / file), re.MULTILINE)
    return Found(f"/{file}", match[1].strip("\"'") if match else "")


def next_start(root: Path) -> Found | None:
    """Return what the kubelet will use after its next start; None when no file says."""
    flags = variable(read(root / KUBEADM_FLAGS), "KUBELET_KUBEADM_ARGS") or ""
    candidates = (
        extra_args(root),
        Found(f"/{KUBEADM_FLAGS}", endpoint_in(shlex.split(flags))),
        in_yaml(root, KUBELET_CONFIG),
    )
    return next((found for found in candidates if found and found.endpoint), None)


def running(root: Path) -> Found | None:
    """Return the endpoint on the running kubelet's command line, '' when it has none there; None: no kubelet runs."""
    psutil.PROCFS_PATH = str(root / "proc")
    with contextlib.suppress(FileNotFoundError):  # a --root without proc
        for process in psutil.process_iter(["name", "cmdline"]):
            if process.info["name"] == "kubelet":
                return Found(f"process {process.pid}", endpoint_in(process.info["cmdline"] or []))
    return None


def is_proxy(endpoint: str, wanted: str) -> bool:
    """Return whether an endpoint is the proxy's, however it is written."""
    return endpoint.removeprefix("unix:").removeprefix("//") == wanted.removeprefix("unix:").removeprefix("//")


def answers(path: str) -> str:
    """Return why this socket serves no calls, '' when the proxy and the runtime behind it answer."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(path)
            client.sendall(_HELLO)
            return "" if client.recv(1) else "the proxy runs, the runtime behind it does not answer"
    except OSError as error:
        return f"{error.strerror or error}: is cri-proxy.service active?"


def problems(root: Path, wanted: str) -> Iterator[str]:
    """Return what is to be changed, one sentence each."""
    coming, without_effect = next_start(root), shadowed(root, wanted)
    if without_effect:
        yield without_effect
    elif coming is None:
        yield f"no file names an endpoint: install the drop-in 10-cri-proxy.conf, or give the kubelet {FLAG}={wanted}"
    elif not is_proxy(coming.endpoint, wanted):
        yield f"{coming.where}: says {coming.endpoint} and beats what comes after it: make it {wanted}"
    now = running(root)
    if now is not None and now.endpoint and not is_proxy(now.endpoint, wanted):
        yield f"the running kubelet ({now.where}) uses {now.endpoint}: restart it once the files are right"
    instance = in_yaml(root, KUBEADM_INSTANCE)
    if instance.endpoint and not is_proxy(instance.endpoint, wanted):
        yield f"{instance.where}: says {instance.endpoint}, `kubeadm upgrade` puts that back: make it {wanted}"


def main() -> int:
    """Print what is right, what is to be changed, and what cannot be seen from here."""
    parser = argparse.ArgumentParser(description="Check that this node's kubelet talks to cri-proxy. Changes nothing.")
    parser.add_argument(
        "--root", type=Path, default=Path("/"), help="the directory that holds etc, proc, var (default /)"
    )
    parser.add_argument("--endpoint", default=ENDPOINT, help=f"the proxy's socket (default {ENDPOINT})")
    parser.add_argument("--uses-proxy", action="store_true", help="print nothing; 0 when the kubelet uses the proxy")
    args = parser.parse_args()
    root, wanted = args.root, args.endpoint
    if args.uses_proxy:
        using = [found for found in (running(root), next_start(root)) if found]
        return 0 if any(is_proxy(found.endpoint, wanted) for found in using) else 1
    path = str(root / wanted.removeprefix("unix:").lstrip("/"))
    silent = answers(path)
    wrong = [f"{path}: {silent}"] if silent else []
    wrong += problems(root, wanted)
    for problem in wrong:
        print(f"change: {problem}")
    if (root / KUBEADM_FLAGS).exists():
        print("look:   kubeadm rewrites its files from the node's annotation; set it once, where kubectl works:")
        print(f"        kubectl annotate node {socket.gethostname().lower()} --overwrite {ANNOTATION}={wanted}")
    if not wrong:
        print(f"ok:     the kubelet uses {wanted}, and it answers")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
