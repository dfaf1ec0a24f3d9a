"""Parse socket, HTTP address, directory, name and annotation domain options to checked text, or ValueError. Pure."""

import re

# sun_path of sockaddr_un holds 108 bytes with its final NUL (unix(7)).
_SOCKET_PATH_BYTES = 107
_PORTS = 65535


def unix_endpoint(text: str) -> str:
    """Return ``unix:///path``, also where only the path is given. Raises ValueError.

    >>> unix_endpoint("/run/x.sock")
    'unix:///run/x.sock'
    """
    path = text.removeprefix("unix://")
    if not path.startswith("/"):
        raise ValueError(f"expected unix:///PATH, got {text!r}")
    # In bytes, as the kernel counts: a longer one would fail only when the daemon binds it.
    if path.endswith("/") or len(path.encode()) > _SOCKET_PATH_BYTES:
        raise ValueError(f"expected the path of a socket of at most {_SOCKET_PATH_BYTES} bytes, got {text!r}")
    return f"unix://{path}"


def optional_endpoint(text: str) -> str:
    """As ``unix_endpoint``; '' stands for none."""
    return unix_endpoint(text) if text else ""


def runtime_endpoint(text: str) -> str:
    """As ``unix_endpoint``, or ``embedded``."""
    return text if text == "embedded" else unix_endpoint(text)


def http_address(text: str) -> str:
    """Return ``ADDRESS:PORT`` (an IPv6 address in brackets) or ``off``. Raises ValueError.

    >>> http_address("[::1]:8891")
    '[::1]:8891'
    """
    # YAML 1.1 reads a bare ``off`` as a boolean; its text is what was written all the same.
    if text.lower() == "off":
        return "off"
    host, colon, port = text.rpartition(":")
    is_host = bool(re.fullmatch(r"[A-Za-z0-9.-]+|\[[0-9A-Fa-f:.]+\]", host))
    if not (colon and is_host and port.isascii() and port.isdigit() and 0 < int(port) <= _PORTS):
        raise ValueError(f"expected ADDRESS:PORT or off, got {text!r}")
    return text


def directory(text: str) -> str:
    """Return the absolute path of a directory. Raises ValueError."""
    if not text.startswith("/"):
        raise ValueError(f"expected an absolute path, got {text!r}")
    return text


def optional_directory(text: str) -> str:
    """Return the absolute path of a directory; '' stands for none. Raises ValueError."""
    return directory(text) if text else ""


def command_words(text: str) -> tuple[str, ...]:
    """Return the words of a command, quoted as for a shell, which does not run it. Raises ValueError.

    >>> command_words("/usr/bin/probe --of 'gpu 0'")
    ('/usr/bin/probe', '--of', 'gpu 0')
    """
    import shlex  # only where a command is given

    try:
        words = tuple(shlex.split(text))
    except ValueError as error:
        raise ValueError(f"expected a path and words, got {text!r}: {error}") from None
    if not words or not words[0].startswith("/"):
        raise ValueError(f"expected the absolute path of a program first, got {text!r}")
    return words


def optional_name(text: str) -> str:
    """Return a node or group name, which becomes part of a file name; '' stands for none. Raises ValueError."""
    if text and not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9_.-]{0,251}[A-Za-z0-9])?", text):
        raise ValueError(f"expected letters, digits, '-', '_' and '.', got {text!r}")
    return text


def annotation_domain(text: str) -> str:
    """Return a DNS subdomain, the part of an annotation key before the slash. Raises ValueError."""
    if not re.fullmatch(r"[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", text):
        raise ValueError(f"expected a DNS name in lower case, got {text!r}")
    return text
