"""A CRI client that acts as a kubelet, over any channel: for simulation, and with what tests add to it."""
