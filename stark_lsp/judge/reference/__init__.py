"""The user's own module: loaded, constructed, run, and what is known of its results."""
