"""Chemical file formats in and out."""
