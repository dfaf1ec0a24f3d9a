"""A certificate for a server on loopback, and its key, made by openssl: none lies in the tree."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

DAYS = "36500"


@dataclass(frozen=True, slots=True)
class Certificate:
    """A self-signed certificate, which is its own authority, and its key."""

    certificate: Path
    key: Path


def is_there() -> bool:
    """Whether openssl is installed."""
    return shutil.which("openssl") is not None


def self_signed(directory: Path) -> Certificate:
    """Make a certificate for localhost and 127.0.0.1."""
    made = Certificate(directory / "ca.crt", directory / "server.key")
    kind = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-days", DAYS, "-subj", "/CN=test"]
    names = ["-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1"]
    files = ["-keyout", str(made.key), "-out", str(made.certificate)]
    subprocess.run(["openssl", "req", "-x509", *kind, *names, *files], check=True, capture_output=True)
    return made
