"""Lakes: batches of recorded runs and keyed files, their ingestion and compaction."""
