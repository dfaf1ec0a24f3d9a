"""``status`` of daemons on other nodes, one or many."""
