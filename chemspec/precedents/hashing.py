"""Hash for looking up products."""

from __future__ import annotations

from hashlib import blake2b


def product_hash(product: str) -> int:
    """Return a 32-bit hash of a product; hits must be compared as text."""
    return int.from_bytes(blake2b(product.encode(), digest_size=4).digest(), "little")
