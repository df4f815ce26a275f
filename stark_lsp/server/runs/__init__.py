"""Runs: one under way, others queued or kept from earlier, and what the editor is shown of each."""
