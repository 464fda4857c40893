# number of ranks: 4
"""MPI_Comm_agree raises at all ranks until all have acknowledged the dead, and agrees on the value all the same."""

from array import array

from ft import attempt, comm, die, finish, phase, rank, report, total

FLAGS = {0: 0b1110, 1: 0b0001, 2: 0b1101, 3: 0b1011}


def agree(key):
    """Agree, and report class and value: a buffer has the value even where an exception comes."""
    flag = array("i", [FLAGS[rank]])
    attempt(key, comm.Iagree(flag).Wait)
    report(f"{key}.value", flag[0])


if rank == 1:
    die()
phase()
agree("none_acked")
phase()
if rank == 0:
    comm.Ack_failed()
agree("one_acked")
phase()
if rank != 3:
    comm.Ack_failed()
agree("one_missing")
phase()
comm.Ack_failed()
agree("all_acked")
report("blocking", comm.Agree(FLAGS[rank]))
new = comm.Shrink()
report("shrunk", f"{new.rank} of {new.size}")
report("shrunk.sum", total(new, rank))
finish()
