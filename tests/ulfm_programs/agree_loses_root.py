# number of ranks: 5
# quirk: * 0.failed [] is [0] -- Open MPI may raise the error before its list of the failed is up to date
# quirk: * 1.failed [0] is [0, 1] -- the same
"""Rank 0, where trees have their root, dies while the others are in MPI_Comm_agree; so does its successor."""

from array import array

from ft import attempt, comm, die, failed, finish, phase, rank, report

for victim in (0, 1):
    if rank == victim:
        die()
    flag = array("i", [0b10110 | rank])
    attempt(f"{victim}", comm.Iagree(flag).Wait)
    report(f"{victim}.value", flag[0])
    report(f"{victim}.failed", failed())
    phase()
    comm.Ack_failed()
report("last", comm.Agree(0xF0 | rank))
new = comm.Shrink()
report("shrunk", f"{new.rank} of {new.size}")
finish()
