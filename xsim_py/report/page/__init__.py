"""HTML reports of runs, comparisons and recovery schemes. They need no network and no other file."""
