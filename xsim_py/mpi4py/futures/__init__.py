"""``mpi4py.futures``: not simulated yet, for its executors start threads and processes."""

raise NotImplementedError("mpi4py.futures is not simulated yet: its executors start threads and processes")
