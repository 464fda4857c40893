"""Python's standard library as a program sees it: time, threads, locks, logging, randomness, each in virtual time."""
