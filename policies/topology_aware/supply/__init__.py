"""The demand of a request, and the free capacity of every pool and memory node."""
