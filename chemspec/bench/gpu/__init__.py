"""Half an hour on a lent GPU, on token ids: no RDKit there, no network, and each command within a limit."""
