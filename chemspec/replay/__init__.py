"""Replays of recorded runs: how long each pass took, and which tokens it emitted."""
