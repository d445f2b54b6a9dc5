"""Files: recorded executions as Parquet, and keyed files of other programs."""
