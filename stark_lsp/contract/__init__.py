"""What both sides of the pipe share: frames, errors, process trees, imports. Standard library only."""
