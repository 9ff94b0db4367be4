"""Many machines: answer a file of any size by engines on a Ray cluster, into a folder of Parquet files."""

from chemspec.cluster.job import JobReport, predict_file

__all__ = ["JobReport", "predict_file"]
