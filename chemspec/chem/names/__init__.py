"""Names of molecules: hand-written tables, the built-in list, and simple systematic names."""
