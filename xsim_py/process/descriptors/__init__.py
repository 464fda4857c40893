"""Descriptors of ranks in virtual time: pipes, sockets, file locks and child processes."""
