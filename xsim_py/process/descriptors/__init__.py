"""What a program does with descriptors: pipes, sockets, locks of files and child processes, in virtual time."""
