# ranks: 1 2
"""Arguments of another class than the declared one: handles, names and integers."""

import numpy as np
from mpi4py import MPI

say = print if MPI.COMM_WORLD.rank == 0 else lambda *_: None
comm, group, data = MPI.COMM_SELF, MPI.COMM_SELF.Get_group(), np.zeros(4)
other = np.zeros(4)
amode = MPI.MODE_CREATE | MPI.MODE_RDWR | MPI.MODE_DELETE_ON_CLOSE
window = MPI.Win.Create(data, comm=comm)
datatype = MPI.DOUBLE.Dup()

CALLS = {
    "Win.Create": lambda x: MPI.Win.Create(data, info=x, comm=comm),
    "Win.Create comm": lambda x: MPI.Win.Create(data, comm=x),
    "Win.Allocate": lambda x: MPI.Win.Allocate(8, 1, x, comm),
    "Win.Allocate_shared": lambda x: MPI.Win.Allocate_shared(8, 1, x, comm),
    "Win.Create_dynamic": lambda x: MPI.Win.Create_dynamic(x, comm),
    "Win.Set_info": lambda x: window.Set_info(x),
    "Win.info": lambda x: setattr(window, "info", x),
    "Win.Start": lambda x: window.Start(x),
    "Win.Post": lambda x: window.Post(x),
    "Win.Set_errhandler": lambda x: window.Set_errhandler(x),
    "Alloc_mem": lambda x: MPI.Alloc_mem(8, x),
    "Open_port": lambda x: MPI.Open_port(x),
    "Publish_name": lambda x: MPI.Publish_name("a", "b", x),
    "Session.Init": lambda x: MPI.Session.Init(x),
    "Split_type": lambda x: comm.Split_type(MPI.COMM_TYPE_SHARED, 0, x),
    "Dup_with_info": lambda x: comm.Dup_with_info(x),
    "Idup_with_info": lambda x: comm.Idup_with_info(x),
    "Set_info": lambda x: comm.Set_info(x),
    "info": lambda x: setattr(comm, "info", x),
    "Create_dist_graph_adjacent": lambda x: comm.Create_dist_graph_adjacent([0], [0], info=x),
    "Create_dist_graph": lambda x: comm.Create_dist_graph([0], [1], [0], info=x),
    "Barrier_init": lambda x: comm.Barrier_init(x),
    "Bcast_init": lambda x: comm.Bcast_init(data, 0, x),
    "Allreduce_init": lambda x: comm.Allreduce_init(data, other, MPI.SUM, x),
    "Psend_init": lambda x: comm.Psend_init(data, 1, 0, 0, x),
    "Create": lambda x: comm.Create(x),
    "Create_group": lambda x: comm.Create_group(x),
    "Create_from_group": lambda x: MPI.Intracomm.Create_from_group(x),
    "Create_intercomm": lambda x: comm.Create_intercomm(0, x, 0),
    "Comm.Compare": lambda x: comm.Compare(x),
    "Comm.Set_errhandler": lambda x: comm.Set_errhandler(x),
    "Group.Union": lambda x: MPI.Group.Union(group, x),
    "Group.Intersection": lambda x: MPI.Group.Intersection(x, group),
    "Group.Difference": lambda x: group.Difference(group, x),
    "Group.Compare": lambda x: group.Compare(x),
    "Group.Translate_ranks": lambda x: group.Translate_ranks([0], x),
    "File.Open": lambda x: MPI.File.Open(comm, "argument_kinds.tmp", amode, x),
    "File.Delete": lambda x: MPI.File.Delete("no such file", x),
    "Spawn": lambda x: comm.Spawn("nothing", info=x),
    "Datatype.Pack": lambda x: datatype.Pack(data, other, 0, x),
    "Datatype.Pack_size": lambda x: datatype.Pack_size(1, x),
}
VALUES = [5, "x", {"a": "b"}, MPI.DOUBLE, None]

for name, call in CALLS.items():
    for value in VALUES[: -1 if name == "Group.Translate_ranks" else None]:
        try:
            call(value)
            say(name, type(value).__name__, "taken")
        except TypeError as error:
            say(name, error)

for name, call in {
    "Comm.Set_name": lambda x: comm.Set_name(x),
    "Comm.name": lambda x: setattr(comm, "name", x),
    "Win.Set_name": lambda x: window.Set_name(x),
    "Datatype.Set_name": lambda x: datatype.Set_name(x),
}.items():
    for value in (7, None, ["a"]):
        try:
            call(value)
            say(name, value, "taken")
        except TypeError as error:
            say(name, error)
    call(b"bytes")
say(comm.name, window.name, datatype.name)

say(list(group.Range_incl([(0.0, 0.9, 1.5)]).Translate_ranks(None, group)))
say(group.Range_excl([(np.float64(0), np.int8(0), True)]).size)
for wrong in ("0", None, [0]):
    try:
        group.Range_incl([(wrong, 0, 1)])
    except (TypeError, ValueError) as error:
        say(type(error).__name__)

datatype.Free()
window.Free()
