"""How long calls take, taking turns, and whether the times can be true."""
