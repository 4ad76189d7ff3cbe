"""A table, whatever files it is in: CSV of any dialect, gzip, Parquet. Only this room knows pyarrow."""
