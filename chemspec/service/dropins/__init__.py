"""Speak the protocols of others, so that what they ship asks this service instead, unchanged."""
