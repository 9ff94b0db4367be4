"""Training: models, learned drafters, and what drafters learn by counting."""
