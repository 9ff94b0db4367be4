"""Reactions: atom maps, classes, stereochemistry, leaving groups, stoichiometry, root-aligned SMILES."""
