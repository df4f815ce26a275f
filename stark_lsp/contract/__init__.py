"""What both sides of the pipe share: frames, errors, process trees, imports, prctl, secrets. Standard library only."""
