"""A rank's thread of control."""

from xsim_py import simulate


def test_a_thread_of_the_operating_system_that_waits_in_mpi_is_told_so() -> None:
    def program() -> str | None:
        from multiprocessing.pool import ThreadPool

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank:
            return None

        def receive() -> str:
            try:
                return str(comm.recv(source=1))
            except NotImplementedError as error:
                return str(error)

        with ThreadPool(1) as pool:
            return pool.apply(receive)

    result = simulate(program, ranks=2)
    assert result.ended == "finished"
    assert result.values[0].startswith("rank 0 calls MPI from a thread of the operating system")
