"""`asyncio` in virtual processes."""

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

from tests.process.launch import launch

SHARDS = pytest.mark.parametrize("shards", [1, 2, 3])
HEAD = "import asyncio, sys, threading, time\nnow = time.perf_counter\n"


@SHARDS
def test_loops_wait_in_virtual_time(tmp_path: Path, shards: int):
    done = launch(
        tmp_path,
        HEAD
        + """
async def sleep(seconds):
    await asyncio.sleep(seconds)
    print(rank, seconds, now())
    return seconds

async def message():
    request = comm.irecv(source=(rank + 1) % comm.size)
    while not (answer := request.test())[0]:
        await asyncio.sleep(0.25)
    return answer[1]

async def main():
    comm.isend(rank, (rank - 1) % comm.size)
    print(rank, await asyncio.gather(sleep(rank + 2), sleep(1), message()))
    try:
        await asyncio.wait_for(asyncio.sleep(10), 1.5)
    except asyncio.TimeoutError:
        print(rank, "timeout", round(now(), 3))
    task = asyncio.create_task(sleep(0.5))
    comm.Barrier()
    await task

asyncio.run(main())
""",
        ranks=3,
        shards=shards,
    )
    assert [line for line in done.lines if line[0] == "1"] == [
        "1 1 1.0",
        "1 3 3.0",
        "1 [3, 1, 2]",
        "1 timeout 4.5",
        next(line for line in done.lines if line.startswith("1 0.5 6.0")),
    ]
    assert done.result.ended == "finished"


def test_threads_reach_a_loop(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
def work():
    time.sleep(2)
    return threading.current_thread().name

async def main():
    loop = asyncio.get_running_loop()
    future = loop.create_future()
    threading.Timer(1, lambda: loop.call_soon_threadsafe(future.set_result, "set")).start()
    print(await future, round(now(), 3))
    print(await asyncio.gather(asyncio.to_thread(work), asyncio.to_thread(work)), round(now(), 3))

thread = threading.Thread(target=lambda: asyncio.run(main()))
thread.start()
asyncio.run(asyncio.sleep(5))
thread.join()
print(now())
""",
    )
    assert done.lines == ["set 1.0", "['asyncio_0', 'asyncio_1'] 3.0", "5.0"]


def test_a_loop_that_waits_for_nothing_is_in_the_deadlock_report(tmp_path: Path):
    done = launch(tmp_path, HEAD + "async def main():\n    await asyncio.Event().wait()\nasyncio.run(main())")
    assert (done.result.ended, done.result.exit_status) == ("stalled", 3)
    assert "rank 0 at 0 s: the event loop of asyncio, for a timer, a socket or another thread" in done.result.report


def test_children_are_waited_for(tmp_path: Path):
    done = launch(
        tmp_path,
        HEAD
        + """
async def main():
    command = (sys.executable, "-c", "print('child')")
    child = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    print((await child.communicate())[0], await child.wait(), now())

asyncio.run(main())
""",
        ranks=2,
    )
    assert done.lines == ["b'child\\n' 0 0.0"] * 2


def test_a_loop_outside_goes_on(tmp_path: Path):
    """As in a notebook, whose cells run in a loop."""

    async def outside() -> list[str]:
        done = launch(tmp_path, HEAD + "asyncio.run(asyncio.sleep(1))\nprint(now())")
        await asyncio.sleep(0)
        assert asyncio.get_running_loop() is loop
        return done.lines

    loop = asyncio.new_event_loop()
    try:
        assert loop.run_until_complete(outside()) == ["1.0"]
    finally:
        loop.close()


@SHARDS
def test_each_process_numbers_its_tasks(tmp_path: Path, shards: int):
    text = """
import asyncio

async def name():
    return asyncio.current_task().get_name()

async def main(*told):
    asyncio.get_running_loop().set_task_factory(*told)
    return [await name(), *(await asyncio.gather(name(), asyncio.create_task(name(), name="given"), name()))]

print(asyncio.run(main(None)))
"""
    made = "print(asyncio.run(main(lambda loop, coro, **told: asyncio.Task(coro, loop=loop, **told))))"
    real = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True).stdout.splitlines()
    done = launch(tmp_path, f"{text}comm.Barrier()\n{made}", ranks=3, shards=shards)
    assert done.lines == 3 * real + 3 * done.lines[-1:]
    assert done.lines[-1] != real[0]
