"""Brings a release to the host of a pod and leads the kubelet to it, step by step, with a way back from each."""
