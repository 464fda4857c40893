"""Fault-tolerant tree collectives (FTCO): the formal model of the paper, in steps."""
