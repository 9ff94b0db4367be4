"""The machine underneath: a cache folder, code compiled for it, its load and its energy."""
