"""Decoders ask what comes after prefixes; one loop answers, with drafts computed ahead."""
