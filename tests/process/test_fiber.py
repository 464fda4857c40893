"""A rank's thread of control."""

from xsim_py import simulate


def test_a_thread_of_a_rank_that_waits_in_mpi_is_told_so() -> None:
    def program() -> str | None:
        import threading

        from mpi4py import MPI

        comm = MPI.COMM_WORLD
        if comm.rank:
            return None
        errors = []

        def receive() -> None:
            try:
                comm.recv(source=1)
            except NotImplementedError as error:
                errors.append(str(error))

        thread = threading.Thread(target=receive)
        thread.start()
        thread.join()
        return errors[0]

    result = simulate(program, ranks=2)
    assert result.ended == "finished"
    assert result.values[0].startswith("rank 0 calls MPI from a thread that it started")
