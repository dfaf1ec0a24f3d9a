"""Look devices up in files of the node: CDI specifications, sysfs, NVIDIA's driver, mounts. For helper processes."""
