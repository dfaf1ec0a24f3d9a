"""The node as schedulers that know NUMA read it: a NodeResourceTopology object, as a file and for ``exporter``."""
