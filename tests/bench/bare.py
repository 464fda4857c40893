"""The least that any simulator on SimPy and greenlets has to do for a ring: the yardstick of the benchmarks.

One event a message, one switch of greenlets a receive, nothing else: no matching, no data, no network, no output.
"""

from __future__ import annotations

import sys
import time
from typing import Any

import simpy
from greenlet import getcurrent, greenlet


def ring(ranks: int, rounds: int) -> float:
    """CPU seconds of a ring."""
    hub = getcurrent()
    environment = simpy.Environment()
    arrived = [0] * ranks
    waiting: list[Any] = [None] * ranks

    def deliver(event: simpy.Event) -> None:
        dest = event._value
        if waiting[dest] is None:
            arrived[dest] += 1
        else:
            sleeper, waiting[dest] = waiting[dest], None
            sleeper.switch()

    def send(dest: int) -> None:
        event = simpy.Event(environment)
        event._ok, event._value, event.callbacks = True, dest, [deliver]
        environment.schedule(event, 1, 10)

    def program(rank: int) -> None:
        for _ in range(rounds):
            send((rank + 1) % ranks)
            if arrived[rank]:
                arrived[rank] -= 1
            else:
                waiting[rank] = getcurrent()
                hub.switch()

    start_s = time.process_time()
    for rank, sleeper in enumerate([greenlet(program) for _ in range(ranks)]):
        sleeper.switch(rank)
    environment.run()
    return time.process_time() - start_s


if __name__ == "__main__":
    print(ring(int(sys.argv[1]), int(sys.argv[2])))
