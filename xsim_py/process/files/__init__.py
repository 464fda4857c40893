"""The virtual file system: the files of a run on a simulated storage."""
