"""The inventory of a node's devices: from a file in the shape of Koordinator's Device object, or from sysfs."""
