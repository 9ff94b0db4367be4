"""HTTP service: `scheduler` forms batches, `api` has the routes, `guard` checks for all of them, `server` runs it."""
