"""Decoders request the scores of prefixes; one loop supplies them, with drafts computed ahead."""
