"""The page Plan: ask for routes, watch the search, read and change what it found."""
