"""The virtual MPI: matching, communicators, groups, collectives; everything that has no mpi4py name."""
