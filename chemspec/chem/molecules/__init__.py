"""Molecules: parse SMILES safely, say where one is wrong, canonical forms, salts, tautomers; imports nothing above."""
