"""``make run``: real containers through the proxy, and what the kernel says about them."""
