# number of ranks: 4
"""After a shrink: topologies, names and attributes are made anew on the new communicator, as on any other."""

from ft import MPI, attempt, comm, die, finish, phase, rank, report, total

cart = comm.Create_cart([2, 2], periods=[True, False])
cart.Set_name("grid")
if rank == 3:
    die()
phase()
report("shift", cart.Shift(0, 1))
report("coords", cart.Get_coords(cart.rank))
attempt("sum", total, cart, 1)
new = attempt("shrink", cart.Shrink)
report("new.topology", new.Get_topology() == MPI.UNDEFINED)
report("new.name", repr(new.Get_name()))
line = attempt("line", new.Create_cart, [3])
report("line.coords", line.Get_coords(line.rank))
report("line.sum", total(line, rank))
finish()
