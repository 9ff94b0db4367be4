"""The page Speed."""
