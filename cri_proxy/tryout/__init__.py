"""The try-out (``make run``): run pods through the proxy and compare its decisions with what the kernel enforces."""
