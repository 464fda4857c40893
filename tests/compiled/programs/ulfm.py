import os
import signal

import numpy as np
from mpi4py import MPI

world, handled = MPI.COMM_WORLD, 0
me, n = world.Get_rank(), world.Get_size()


def say(text):
    print(f"{me}: {text} at {MPI.Wtime():.9f}")


def note(comm, code):
    global handled
    handled += MPI.Get_error_class(code) == MPI.ERR_PROC_FAILED
    comm.Revoke()


def class_of(call, *arguments):
    try:
        call(*arguments)
    except MPI.Exception as error:
        return error.Get_error_class()
    return MPI.SUCCESS


comm = world.Dup()
handler = MPI.Comm.Create_errhandler(note)
comm.Set_errhandler(handler)
handler.Free()
if me == n - 1:
    os.kill(os.getpid(), signal.SIGKILL)
code = class_of(comm.Barrier)
say(f"barrier {int(code in (MPI.ERR_PROC_FAILED, MPI.ERR_REVOKED))}, handled {handled}")
say(f"revoked {int(comm.Is_revoked())}")
flag = np.array([6 if me == 0 else 3], np.intc)
request = world.Iagree(flag)
code = class_of(request.Wait)
say(f"agreed {flag[0]}, failed {int(code == MPI.ERR_PROC_FAILED)}")
count = world.Ack_failed()
say(f"acknowledged {count} {world.Ack_failed(1)}")
flag[0] = -2
request = world.Iagree(flag)
code = class_of(request.Wait)
say(f"agreed {flag[0]}, failed {int(code != MPI.SUCCESS)}")
smaller = comm.Shrink()
again, request = world.Ishrink()
request.Wait()
mine, total = np.array([me], np.intc), np.zeros(1, np.intc)
smaller.Allreduce(mine, total)
say(f"sum {total[0]} of {again.Get_size()}")
again.Free()
smaller.Free()
