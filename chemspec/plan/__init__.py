"""Multi-step routes from a molecule to things one can buy: Syntheseus searches, our single-step models answer."""
