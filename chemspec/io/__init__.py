"""Many queries in, many answers out: files."""


class FileError(ValueError):
    """A file that cannot be read or written as asked; the message says which and what to do."""
