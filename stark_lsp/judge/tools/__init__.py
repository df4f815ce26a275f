"""Tools that watch a candidate: memory checkers, hardware counters."""
