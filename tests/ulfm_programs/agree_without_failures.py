# number of ranks: 5
"""MPI_Comm_agree is a bitwise AND, with no failure as well; MPI_Comm_shrink then gives the same ranks."""

from ft import attempt, comm, finish, rank, report, size, total

report("ones", attempt("agree", comm.Agree, -1))
report("own_bit", comm.Agree(~(1 << rank) & 0xFF))
report("zero", comm.Agree(0))
report("one_zero", comm.Agree(int(rank != size - 1)))
report("boolean", comm.Agree(True))
for turn in range(3):
    report(f"turn.{turn}", comm.Agree(7 << turn))
new = attempt("shrink", comm.Shrink)
report("shrunk", f"{new.rank} of {new.size}, sum {total(new, rank + 1)}")
report("failed", comm.Get_failed().size)
report("revoked", comm.Is_revoked())
new.Free()
finish()
