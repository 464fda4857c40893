"""Steps that make communicators, and what can be asked of them and of groups."""

from tests.fuzz.interpreter import step


@step(comm=4, how=["Dup", "Clone", "Idup", "Split", "Split", "Create", "Create_group", "Dup_with_info"], seed=8,
      backwards=2)  # fmt: skip
def communicator(run, comm, how, seed, backwards):
    """Another communicator, of all or of some."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        run.comms.append(run.mpi.COMM_NULL)
        return
    run.comms.append(_made(run, comm, how, seed, backwards))
    new = run.comms[-1]
    if new == run.mpi.COMM_NULL:
        run.note("not in it")
        return
    run.note(new.rank, new.size, new.is_inter, _relation(run, comm, new), translated(run, new))


def _made(run, comm, how, seed, backwards):
    if how in ("Dup", "Clone"):
        return getattr(comm, how)()
    if how == "Idup":
        new, request = comm.Idup()
        request.Wait()
        return new
    if how == "Dup_with_info":
        return comm.Dup_with_info(run.mpi.INFO_NULL)
    if how == "Split":
        color = (comm.rank * (seed + 1)) % (seed % 3 + 1)
        color = run.mpi.UNDEFINED if seed > 4 and color == 0 and comm.size > 1 else color
        return comm.Split(color, -comm.rank if backwards else 0)
    group = _some(comm.group, seed, backwards)
    if how == "Create":
        return comm.Create(group)
    if group.rank == run.mpi.UNDEFINED:
        return run.mpi.COMM_NULL
    return comm.Create_group(group, run.number)


def _some(group, seed, backwards):
    ranks = [rank for rank in range(group.size) if (seed + 1) >> rank & 1] or [0]
    return group.Incl(ranks[::-1] if backwards else ranks)


def _relation(run, one, other):
    found = run.mpi.Comm.Compare(one, other)
    return next(name for name in ("IDENT", "CONGRUENT", "SIMILAR", "UNEQUAL") if getattr(run.mpi, name) == found)


def translated(run, comm):
    """The members as ranks of the world."""
    group = comm.group
    return [run.named(rank) for rank in group.Translate_ranks(None, run.world.group)]


@step(comm=4, seed=6)
def intercommunicator(run, comm, seed):
    """Two parts of a communicator face each other."""
    comm = run.pick(run.comms, comm)
    if comm is None or comm.size == 1:
        run.add_facing(run.mpi.COMM_NULL)
        return
    limit = 1 + seed % (comm.size - 1)
    low = comm.rank < limit
    half = comm.Split(int(low), 0)
    new = half.Create_intercomm(0, comm, limit if low else 0, run.number)
    half.Free()
    run.add_facing(new, int(low))
    run.note(new.rank, new.size, new.remote_size, new.is_inter)


@step(which=4, how=["Merge", "Dup", "Split"], high=3)
def from_intercommunicator(run, which, how, high):
    """Both groups become one, or a copy of the two."""
    inter, side = run.facing(which)
    if inter is None:
        (run.comms.append if how == "Merge" else run.add_facing)(run.mpi.COMM_NULL)
        return
    if how == "Merge":
        new = inter.Merge(side if high != 1 else not side)
        run.comms.append(new)
    else:
        new = inter.Dup() if how == "Dup" else inter.Split(0, -inter.rank)
        run.add_facing(new, side)
    run.note(new.rank, new.size, translated(run, new))


@step(comm=4, shape=[[0], [2], [2, 2], [1, 0], [3], [0, 2], [4], [1, 1, 1]], periods=4, reorder=2)
def cartesian(run, comm, shape, periods, reorder):
    """A grid of ranks, as many as fit."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        run.topologies.append(run.mpi.COMM_NULL)
        return
    try:
        dims = run.mpi.Compute_dims(comm.size, shape)
        cart = comm.Create_cart(dims, [bool(periods >> i & 1) for i in range(len(dims))], bool(reorder))
    except Exception:
        run.topologies.append(run.mpi.COMM_NULL)
        raise
    run.topologies.append(cart)
    run.note(dims)
    if cart == run.mpi.COMM_NULL:
        run.note("not in it")
        return
    run.note(cart.coords, cart.Get_topo(), [cart.Get_cart_rank(cart.Get_coords(rank)) for rank in range(cart.size)])
    run.note([[run.named(rank) for rank in cart.Shift(axis, 1)] for axis in range(len(dims))])
    run.attempt(cart.Get_cart_rank, [-1] * len(dims))


@step(which=4, keep=4)
def sub_grid(run, which, keep):
    """Some dimensions of a grid."""
    comm = run.pick(run.topologies, which)
    if comm is None or comm.Get_topology() != run.mpi.CART:
        run.topologies.append(run.mpi.COMM_NULL)
        return
    new = comm.Sub([bool(keep >> i & 1) for i in range(comm.Get_dim())])
    run.topologies.append(new)
    run.note(new.rank, new.size, new.dims, translated(run, new))


@step(comm=4, kind=["graph", "adjacent", "dist"], seed=8, weighted=2)
def graph(run, comm, kind, seed, weighted):
    """Ranks with any neighbours."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        run.topologies.append(run.mpi.COMM_NULL)
        return
    size = comm.size
    pairs = [(a, b) for a in range(size) for b in range(size)]
    symmetric = kind == "graph"  # whoever speaks there also hears; and mpi4py takes a first node without edges for none
    edges = [(a, b) for a, b in pairs if (a + b * (1 if symmetric else 2) + seed) % 3 == 0 or a == b == 0]
    out = {rank: [b for a, b in edges if a == rank] for rank in range(size)}
    into = [a for a, b in edges if b == comm.rank]
    if kind == "graph":
        index = [sum(len(out[i]) for i in range(rank + 1)) for rank in range(size)]
        new = comm.Create_graph(index, [b for rank in range(size) for b in out[rank]])
        found = [new.Get_topo(), new.Get_neighbors(new.rank)]
    else:
        mine = out[comm.rank]
        weights = [[i + 1 for i in range(len(part))] if weighted else None for part in (into, mine)]
        if kind == "adjacent":
            new = comm.Create_dist_graph_adjacent(into, mine, *weights)
        else:
            new = comm.Create_dist_graph([comm.rank], [len(mine)], mine, weights[1])
        found = new.Get_dist_neighbors_count()
        if kind == "adjacent":
            sources, targets, given = new.Get_dist_neighbors()
            found = [found, sources, targets, [list(part) for part in given] if given else given]
    run.note(found)
    if kind == "dist":  # in which order the neighbours are is for the library to choose
        new.Free()
        new = run.mpi.COMM_NULL
    run.topologies.append(new)


@step(comm=4, seed=8, other=8, call=["Union", "Intersection", "Difference", "Incl", "Excl", "Range_incl",
                                     "Range_excl", "Compare"])  # fmt: skip
def groups(run, comm, seed, other, call):
    """Sets of processes."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    one, two = _some(comm.group, seed, seed % 2), _some(comm.group, other, 0)
    if call in ("Union", "Intersection", "Difference"):
        group = getattr(run.mpi.Group, call)(one, two)
    elif call in ("Incl", "Excl"):
        group = getattr(comm.group, call)([other % comm.size])
    elif call == "Compare":
        run.note(next(name for name in ("IDENT", "SIMILAR", "UNEQUAL") if getattr(run.mpi, name) == one.Compare(two)))
        return
    else:
        group = getattr(comm.group, call)([(0, comm.size - 1, 1 + seed % 3)])
    run.note(group.size, run.named(group.rank), [run.named(r) for r in group.Translate_ranks(None, run.world.group)])
    run.note([run.named(rank) for rank in one.Translate_ranks(None, two)], group == run.mpi.GROUP_EMPTY)


@step(comm=4, copy=["none", "same", "changed", "refused", "raises"], delete=2, remove=2)
def attributes(run, comm, copy, delete, remove):
    """What is attached to a communicator, and what becomes of it in a copy."""
    comm = run.pick(run.comms, comm)
    if comm is None:
        return
    copies = {"none": None, "same": lambda comm, keyval, value: value, "changed": lambda comm, keyval, value: value * 2,
              "refused": lambda comm, keyval, value: NotImplemented}  # fmt: skip
    calls = []
    keyval = run.mpi.Comm.Create_keyval(
        copies.get(copy), (lambda comm, key, value: calls.append(value)) if delete else None
    )
    comm.Set_attr(keyval, 21)
    comm.Set_attr(keyval, 22)
    new = comm.Dup()
    run.note(comm.Get_attr(keyval), new.Get_attr(keyval), list(calls))
    if remove:
        comm.Delete_attr(keyval)
        run.note(comm.Get_attr(keyval), list(calls))
    new.Free()
    run.note(list(calls))
    if not remove:
        comm.Delete_attr(keyval)
    run.note(list(calls))
    run.mpi.Comm.Free_keyval(keyval)
