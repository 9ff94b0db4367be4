"""The hash by which a product is looked up."""

from __future__ import annotations

from hashlib import blake2b


def product_hash(product: str) -> int:
    """Return 32 bits; what is found by them is compared as text."""
    return int.from_bytes(blake2b(product.encode(), digest_size=4).digest(), "little")
