"""Chains that learn together for some rounds, as those of cobaya do; the argument is its module mpi."""

import importlib.util
import random
import sys
import time

spec = importlib.util.spec_from_file_location("cobaya_mpi", sys.argv[1])
mpi = importlib.util.module_from_spec(spec)
spec.loader.exec_module(mpi)

draws = random.Random(mpi.rank())
rounds = 0
with mpi.ProcessState("chains", sleep_interval=1e-4) as state:
    ready = False
    while rounds < 5:
        time.sleep(draws.random() * 1e-3)
        ready = ready or draws.random() < 0.3
        state.check_error()
        if ready:
            state.set(mpi.State.READY)
            if state.all_ready():
                mpi.share(mpi.gather(rounds))
                rounds, ready = rounds + 1, False
print("rounds", rounds)
