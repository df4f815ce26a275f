"""What an editor asks for or offers: one file for each feature."""
