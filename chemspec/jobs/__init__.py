"""Jobs over whole files: stored, queued, run by processes of their own, and exported."""
