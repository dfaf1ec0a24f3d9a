"""How others write down which devices a container gets: paths, PCI addresses, variables, CDI files, NVIDIA's names."""
