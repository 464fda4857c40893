# number of ranks: 5
# by heartbeat only: it asks for failures that nobody has waited for
"""Failures one after the other: each list of the failed begins with the list before; acknowledging some of them."""

from ft import comm, die, failed, finish, phase, rank, report

lists = []
for victim in (3, 1):
    if rank == victim:
        die()
    phase()
    lists.append(failed())
    report(f"failed.{victim}", lists[-1])
report("prefix", lists[1][: len(lists[0])] == lists[0])
report("ack_none", comm.Ack_failed(0))
report("ack_first", comm.Ack_failed(1))
report("ack_both", comm.Ack_failed(2))
report("ack_query", comm.Ack_failed(0))
finish()
