"""The pod resources API of the kubelet, generated from our .proto file."""
