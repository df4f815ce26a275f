"""The device: whose turn it is, who else uses it, what it is."""
