# number of ranks: 3
"""Persistent requests that name a dead rank: each start fails again; towards the living they go on."""

import numpy as np
from ft import attempt, comm, die, finish, phase, rank, report

box = np.zeros(1)
to_dead, from_dead = comm.Ssend_init(box, dest=1), comm.Recv_init(box, source=1)
other = 2 - rank
send, receive = comm.Send_init(np.array([rank * 1.0]), dest=other), comm.Recv_init(box, source=other)
if rank == 1:
    die()
phase()
for turn in range(2):
    for name, request in (("send", to_dead), ("recv", from_dead)):
        attempt(f"{name}.{turn}.start", request.Start)
        attempt(f"{name}.{turn}", request.Wait)
for turn in range(2):
    send.Start()
    receive.Start()
    send.Wait()
    receive.Wait()
    report(f"living.{turn}", box.tolist())
finish()
