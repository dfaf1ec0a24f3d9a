"""A CRI client that acts as a kubelet, over any channel: for simulation, the try-out and tests."""
