"""The devices of a container: which are free, which are chosen by place and by cost together with CPUs, and why."""
