"""Grounded instructions: the lines a plan is about, marked, checked and followed (paper, section 4.3)."""
