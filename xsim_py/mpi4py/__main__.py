"""``python -m mpi4py ...`` in a simulation: the same as ``python -m mpi4py.run ...``."""

from xsim_py.mpi4py.run import main

if __name__ == "__main__":
    main()
