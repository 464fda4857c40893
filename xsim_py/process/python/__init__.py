"""What a program sees of Python's standard library: time, threads, locks, logging, randomness, each in virtual time."""
