"""Python's standard library in virtual time: time, threads, locks, logging, randomness."""
