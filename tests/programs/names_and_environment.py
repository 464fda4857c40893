# ranks: 1 2 4
"""Names of objects, and what a program can learn about where it runs."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank, size = comm.rank, comm.size

print(f"rank {rank}: {comm.Get_name()} {MPI.COMM_SELF.Get_name()} {comm.name}")
copy = comm.Dup()
copy.Set_name("the copy")
print(f"rank {rank}: {copy.Get_name()} {copy.name}")
copy.name = "äöü"
print(f"rank {rank}: {copy.Get_name()}, its split {comm.Split(0).Get_name()!r}")
copy.Free()
print(f"rank {rank}: {MPI.INT.Get_name()} {MPI.DOUBLE.name} {MPI.BYTE.Get_name()} {MPI.FLOAT_INT.Get_name()}")
datatype = MPI.INT.Create_contiguous(3)
print(f"rank {rank}: derived {datatype.Get_name()!r}")
datatype.Set_name("triple")
print(f"rank {rank}: {datatype.name}")
datatype.Free()

print(f"rank {rank}: initialized {MPI.Is_initialized()}, finalized {MPI.Is_finalized()}")
version, subversion = MPI.Get_version()
print(f"rank {rank}: version {version >= 3} {0 <= subversion <= 9} {(MPI.VERSION, MPI.SUBVERSION) >= (3, 0)}")
print(f"rank {rank}: library {len(MPI.Get_library_version()) > 0}")
print(f"rank {rank}: processor {isinstance(MPI.Get_processor_name(), str)} {len(MPI.Get_processor_name()) > 0}")
print(f"rank {rank}: thread {MPI.Query_thread() >= MPI.THREAD_SINGLE} {MPI.Is_thread_main()}")
print(f"rank {rank}: levels {MPI.THREAD_SINGLE < MPI.THREAD_FUNNELED < MPI.THREAD_SERIALIZED < MPI.THREAD_MULTIPLE}")

before = MPI.Wtime()
comm.Barrier()
after = MPI.Wtime()
print(f"rank {rank}: time goes on {after >= before}, tick {0 < MPI.Wtick() <= 1e-3}, type {type(after).__name__}")
print(f"rank {rank}: one job {comm.Get_attr(MPI.UNIVERSE_SIZE) != 0}, {MPI.Comm.Get_parent() == MPI.COMM_NULL}")
print(f"rank {rank}: null {bool(MPI.COMM_NULL)} {MPI.Comm() == MPI.COMM_NULL} {MPI.Request() == MPI.REQUEST_NULL}")
print(f"rank {rank}: identity {comm == MPI.COMM_WORLD} {MPI.COMM_WORLD is comm} {isinstance(comm, MPI.Intracomm)}")
print(f"rank {rank}: limits {MPI.MAX_PROCESSOR_NAME > 0} {MPI.MAX_ERROR_STRING > 0} {MPI.MAX_OBJECT_NAME > 0}")
print(f"rank {rank}: negative {MPI.PROC_NULL < 0} {MPI.ANY_SOURCE < 0} {MPI.ANY_TAG < 0} {MPI.UNDEFINED < 0}")
