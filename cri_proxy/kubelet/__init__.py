"""The kubelet beside us: what its command line, unit and files set, and its pod resources API."""
