# number of ranks: 4
"""A loop that survives: revoke, shrink, agree on the step to go back to, and go on with fewer ranks."""

from ft import MPI, attempt, comm, die, finish, rank, report, total

STEPS, VICTIMS = 9, {3: 3, 6: 1}
world, step, result, kept = comm.Dup(), 0, 0, (0, 0)
repairs = 0
while step < STEPS:
    try:
        if VICTIMS.get(step) == rank:
            die(0.1)
        if step % 2 == 0:
            kept = (step, result)
        result += total(world, step * (rank + 1))
        step += 1
    except MPI.Exception:
        repairs += 1
        attempt(f"{repairs}.revoke", world.Revoke)
        world = attempt(f"{repairs}.shrink", world.Shrink)
        step, result = kept
        report(f"{repairs}.back", f"to step {step} with {world.size}, sum {total(world, step)}")
report("steps", step)
report("result", result)
finish()
