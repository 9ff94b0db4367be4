"""Measurements of speed and of drafts: what the tables in the documentation are made with."""
