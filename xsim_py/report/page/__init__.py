"""HTML reports of runs, comparisons and recovery schemes, each one file without network."""
