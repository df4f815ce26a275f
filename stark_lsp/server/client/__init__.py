"""What the client on the other side can do, what it sets, and what it lends: a key, a model."""
