"""What a run or a verdict looks like on a terminal, and as JSON."""
