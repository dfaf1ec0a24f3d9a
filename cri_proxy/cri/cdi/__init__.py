"""CDI: the devices that specification files of /etc/cdi and /var/run/cdi declare, and what containers get for them."""
