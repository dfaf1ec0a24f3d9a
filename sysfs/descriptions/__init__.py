"""Build machines from a short description, without reading a sysfs tree."""
