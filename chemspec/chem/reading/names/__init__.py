"""Names of molecules: bench names by hand, the packed table, condensed formulas, peptides, and OPSIN."""
