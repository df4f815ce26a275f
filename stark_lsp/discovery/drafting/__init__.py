"""Inputs for a class that has none, worked out from the text of its file."""
