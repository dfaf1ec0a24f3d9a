"""The names of CDI devices. Pure."""


def cdi_name(device: str) -> str:
    """Return the CDI name of a device of a cost file: its type is the kind, as ``vendor.com/class``.

    >>> cdi_name("example.com/gpu/gpu0")
    'example.com/gpu=gpu0'
    """
    kind, _, name = device.rpartition("/")
    return f"{kind}={name}"
