"""Many machines: answer a file of any size by engines on a Ray cluster; `job.predict_file` is the call."""
