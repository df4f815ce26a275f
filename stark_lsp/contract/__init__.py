"""What both sides of the pipe share: frames, errors, process trees, imports, prctl. Standard library only."""
