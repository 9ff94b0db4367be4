"""HTTP service: engines behind a queue, and routes for predictions, reviews and ASKCOS.

`scheduler` forms batches, `api` has the routes, `guard` the checks for all of them, and `server` runs the service.
"""
