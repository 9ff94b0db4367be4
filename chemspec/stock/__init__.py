"""Stock: which molecules can be bought or lie on a shelf, by lists of keys and prices; beneath plan and review."""
