"""CSV, TSV and Parquet files in, models, predictions and reports out."""
