# ranks: 1 2
"""Info objects: keys and values, as a mapping and with MPI's own names."""

from mpi4py import MPI

comm = MPI.COMM_WORLD
rank = comm.rank

info = MPI.Info.Create()
print(f"rank {rank}: empty {len(info)} {bool(info)} {info.Get_nkeys()} {info.Get('key')}")
info.Set("colour", "blue")
info["size"] = "10"
info.Set("colour", "red")
print(f"rank {rank}: {info.Get('colour')} {info['size']} {info.get('none', 'default')} {info.Get_nkeys()}")
print(f"rank {rank}: keys {sorted(info.keys())} {sorted(info.values())} {sorted(info.items())} {sorted(info)}")
print(f"rank {rank}: in {'size' in info} {'weight' in info}")
print(f"rank {rank}: nth {sorted(info.Get_nthkey(number) for number in range(info.Get_nkeys()))}")
copy = info.Dup()
info.Delete("size")
del copy["colour"]
print(f"rank {rank}: after {sorted(info.items())} {sorted(copy.items())}")
try:
    info.Delete("size")
except MPI.Exception as error:
    print(f"rank {rank}: no such key {error.Get_error_class() == MPI.ERR_INFO_NOKEY}")
try:
    info["size"]
except KeyError as error:
    print(f"rank {rank}: KeyError {error}")
copy.update({"a": "1"}, b="2")
print(f"rank {rank}: popped {copy.pop('a')} {copy.pop('zzz', None)} {sorted(copy.items())}")
filled = MPI.Info.Create({"x": "1", "y": "2"})
print(f"rank {rank}: filled {sorted(filled.items())} {sorted(filled.copy().items())}")
filled.clear()
print(f"rank {rank}: cleared {filled.items()} {len(filled)}")

dup = comm.Dup(info)
hints = dup.Get_info()
print(f"rank {rank}: hints {hints != MPI.INFO_NULL}")
dup.Set_info(info)
print(f"rank {rank}: null {MPI.Info() == MPI.INFO_NULL} {bool(MPI.INFO_NULL)}")
dup.Free()
for one in (info, copy, filled, hints):
    one.Free()
print(f"rank {rank}: freed {info == MPI.INFO_NULL}")
