"""What the kubelet tells about its pods: the pod resources API."""
