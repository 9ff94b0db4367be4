"""From reaction tables to arrays of token ids."""
