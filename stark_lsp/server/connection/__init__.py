"""How messages come in and go out, and when that ends."""
