"""Inputs: made, tried, recorded, varied."""
