"""The twin of clocks.c."""

import os
import time

from mpi4py import MPI


def clock():
    return time.process_time_ns() // 1000


rank = MPI.COMM_WORLD.Get_rank()
print(time.time_ns(), time.monotonic_ns(), time.process_time_ns(), clock())
for seconds in (rank, 0.0001, 1.5, 1.5, 1.5):
    time.sleep(seconds)
time.sleep(20 - time.monotonic())
time.sleep(0.007)
time.sleep(0.25)
print(time.time_ns(), time.monotonic_ns(), f"{MPI.Wtime():.9f}")
now_us = time.time_ns() // 1000
now_s = time.time_ns() // 10**9
print(f"{now_us // 10**6}.{now_us % 10**6:06}", int(time.time()), now_s, clock())
end = time.monotonic_ns() + 10**9
readings = 0
while time.monotonic_ns() < end:
    readings += 1
print(readings, os.getpid(), os.urandom(4).hex())
