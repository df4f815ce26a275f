"""What all commands share: the terminal, figures and words on it, errors, and the way to stop."""
