"""Where the kubelet has put a pod's devices: its pod resources service, asked over its socket."""
