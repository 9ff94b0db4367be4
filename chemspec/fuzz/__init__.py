"""Throw what nobody would write at every way in: `chemspec dev fuzz`."""
