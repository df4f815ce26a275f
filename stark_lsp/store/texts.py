"""Long texts, each kept once however often it is used."""

from __future__ import annotations

import hashlib
import sqlite3


def put(connection: sqlite3.Connection, text: str) -> str:
    """Keep a text and return the digest it is found by: SHA-256 of its bytes, in hex."""
    body = to_bytes(text)
    digest = hashlib.sha256(body).hexdigest()
    # Looked for first: handing a long text to SQLite only to find that it is there would cost a copy each time.
    if connection.execute("SELECT 1 FROM texts WHERE digest = ?", (digest,)).fetchone() is None:
        connection.execute("INSERT INTO texts (digest, body) VALUES (?, ?)", (digest, body))
    return digest


def drop_unused(connection: sqlite3.Connection) -> None:
    """Delete the texts that no exchange refers to."""
    connection.execute("DELETE FROM texts WHERE NOT EXISTS (SELECT 1 FROM exchange_texts WHERE digest = texts.digest)")


def to_bytes(text: str) -> bytes:
    """Return a text as UTF-8; surrogates, which a model may send and UTF-8 has no bytes for, keep theirs."""
    return text.encode("utf-8", "surrogatepass")


def to_text(body: bytes) -> str:
    """Return what `to_bytes` was given."""
    return body.decode("utf-8", "surrogatepass")
