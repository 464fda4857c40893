# number of ranks: 5
# quirk: * 2.failed [] is [2] -- Open MPI may raise the error before its list of the failed is up to date
# quirk: * 4.failed [2] is [2, 4] -- the same
"""A rank dies while the others wait for it in MPI_Comm_agree: all get the same, and know the dead afterwards."""

from array import array

from ft import attempt, comm, die, failed, finish, phase, rank, report

for victim in (2, 4):
    if rank == victim:
        die()
    flag = array("i", [0b11110 | (rank & 1)])
    attempt(f"{victim}", comm.Iagree(flag).Wait)
    report(f"{victim}.value", flag[0])
    report(f"{victim}.failed", failed())
    phase()
    comm.Ack_failed()
report("last", comm.Agree(1))
finish()
