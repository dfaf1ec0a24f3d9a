"""The kubelet's pod resources interface as written by this project, and the stubs generated from it."""
