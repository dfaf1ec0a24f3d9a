"""Files by which plugins and operators list the devices of a node: their texts, and which of these count."""
