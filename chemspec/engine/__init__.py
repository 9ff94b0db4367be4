"""Load a model and answer queries: the engine and what it is made of."""
