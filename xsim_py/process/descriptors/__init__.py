"""Descriptors of ranks, in virtual time: pipes, sockets, locks of files and child processes."""
