# number of ranks: 6
"""The man page's loop of acknowledging and agreeing: all survivors end with the same failed group."""

from ft import comm, die, failed, finish, outcome, phase, rank, report

if rank in (1, 4):
    die(0.1 * rank)
for turn in ("first", "second"):
    acked = comm.Ack_failed()
    while outcome(comm.Agree, 1) != ("SUCCESS", 1):
        acked = comm.Ack_failed()
    report(turn, sorted(failed()[:acked]))
    phase()
finish()
