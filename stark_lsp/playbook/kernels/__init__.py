"""From a kernel spec and a variant to kernel source and the Python that launches it."""
