"""Documents as the editor has them, places in them, and words for what is shown there."""
