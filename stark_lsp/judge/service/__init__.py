"""What the server asks for: a problem prepared, a candidate judged, a file tried."""
