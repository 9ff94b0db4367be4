"""Answer over HTTP: one engine a device, fed by one queue; our own routes, and those of two protocols in use.

`scheduler` makes batches of what waits, `api` has the routes and `guard` what holds for all of them, `server` runs it.
"""
