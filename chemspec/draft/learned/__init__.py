"""Drafters with weights of their own, trained for a model."""
