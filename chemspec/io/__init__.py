"""Many queries in, many answers out: files."""
