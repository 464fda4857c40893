"""The bytes of long doubles that belong to no value do not go into messages."""

from itertools import product

import numpy as np
import pytest

from tests.campaign import CAMPAIGN
from xsim_py import simulate
from xsim_py.mpi.padding import mask_of
from xsim_py.mpi4py import MPI

RANKS = 4
COUNT = 6
TYPES = "hidDgG"


def numbers(code, filling, factor=1):
    """Return a few numbers of a type, whose padding is a given byte."""
    values = (np.arange(COUNT) * factor % 2).astype(code)
    if code in "gG" and np.finfo(values.dtype).nmant == 63:
        values.view(np.uint8).reshape(-1, np.dtype("g").itemsize)[:, 10:] = filling
    return values


def messages(comm, mine, theirs):
    """Exchange numbers by messages, among them those of derived types."""
    beside = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
    comm.Sendrecv(mine, beside[0], recvbuf=theirs, source=beside[1])
    basic = MPI._typedict[mine.dtype.char]
    apart = basic.Create_vector(COUNT // 2, 1, 2).Commit()
    wide = mine.itemsize
    mixed = MPI.Datatype.Create_struct([1, 2, 2], [0, 2 * wide, 4 * wide], [basic, basic, MPI.BYTE]).Commit()
    for datatype in (apart, mixed):
        comm.Sendrecv([mine, 1, datatype], beside[0], recvbuf=[theirs, 1, datatype], source=beside[1])
    request = comm.Isend(mine, beside[0])
    comm.Recv(theirs, beside[1])
    request.Wait()
    room = bytearray(mine.nbytes)
    basic.Pack(mine, room, 0, comm)
    comm.Sendrecv(room, beside[0], recvbuf=bytearray(mine.nbytes), source=beside[1])


def collectives(comm, mine, theirs):
    """Exchange numbers by collectives and reductions."""
    comm.Bcast(mine, 2)
    every = np.empty(comm.size * COUNT, mine.dtype)
    comm.Allgather(mine, every)
    comm.Gather(mine, every if comm.rank == 1 else None, 1)
    comm.Alltoall(every, np.empty_like(every))
    for operation in (MPI.SUM, MPI.PROD, MPI.Op.Create(lambda left, right, datatype: None)):
        comm.Allreduce(mine, theirs, operation)
        comm.Reduce(mine, theirs, operation, 1)
        comm.Scan(mine, theirs, operation)
        comm.Reduce_scatter_block(every, theirs, operation)
    pair = np.dtype([("value", "g"), ("index", "i")], align=True)
    located = np.full(pair.itemsize, 255, np.uint8).view(pair)
    located["value"], located["index"] = 1, comm.rank
    if mine.dtype.char == "g":
        located.view(np.uint8)[10:16] = mine.view(np.uint8)[10:16]
        comm.Allreduce([located, 1, MPI.LONG_DOUBLE_INT], [located.copy(), 1, MPI.LONG_DOUBLE_INT], MPI.MAXLOC)


def windows(comm, mine, theirs):
    """Exchange numbers by windows."""
    window = MPI.Win.Create(mine, mine.itemsize, comm=comm)
    beside = (comm.rank + 1) % comm.size
    window.Fence()
    window.Get(theirs, beside)
    window.Fence()
    window.Put(numbers(mine.dtype.char, mine.view(np.uint8)[-1]), beside)
    window.Fence()
    window.Accumulate(theirs, beside, op=MPI.SUM)
    window.Fence()
    window.Get_accumulate(mine.copy(), theirs, beside, op=MPI.SUM)
    window.Fence()
    window.Free()


def files(comm, mine, theirs):
    """Write numbers to a file, each rank its own and all together, and send what is in it then."""
    file = MPI.File.Open(comm, "numbers", MPI.MODE_CREATE | MPI.MODE_RDWR)
    file.Set_view(0, MPI._typedict[mine.dtype.char])
    file.Write_at(comm.rank * COUNT, mine)
    file.Write_at_all((comm.size + comm.rank) * COUNT, mine)
    file.Sync()
    file.Close()
    comm.Barrier()
    comm.Bcast(np.fromfile("numbers", np.uint8))


@pytest.mark.parametrize(
    ("code", "program"), [*product(TYPES, [messages, collectives, windows, files])][:: 1 if CAMPAIGN else 3]
)
def test_what_padding_holds_changes_no_digest(code, program, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    def body(filling):
        mine = numbers(code, filling)
        theirs = numbers(code, filling, 3)
        program(MPI.COMM_WORLD, mine, theirs)
        return theirs.tolist()

    options = {"ranks": RANKS, "machine": "gige"}
    first, second, apart = (
        simulate(body, args=[filling], shards=shards, **options) for filling, shards in ((0, 1), (0xAB, 1), (0x7F, 3))
    )
    assert first.exit_status == 0, first.report
    assert first.values == second.values == apart.values
    assert first.digest == second.digest == apart.digest
    assert first.summary["messages"] > 0


def test_the_padding_of_a_struct_is_that_of_its_members():
    wide = np.dtype("g")
    mask = mask_of([(np.dtype("i"), 1), (wide, 2)])
    if np.finfo(wide).nmant != 63:
        assert mask is None
    else:
        blank = wide.itemsize - 10
        assert mask.tolist() == [255] * 4 + ([255] * 10 + [0] * blank) * 2
        assert mask_of([(np.dtype("G"), 7)]).tolist() == ([255] * 10 + [0] * blank) * 2
    assert mask_of([(np.dtype("d"), 3), (np.dtype("i"), 1)]) is None
