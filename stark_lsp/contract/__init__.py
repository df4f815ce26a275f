"""What both sides of the pipe share: frames, errors, process trees. Standard library only."""
