# number of ranks: 4
# arguments of a run: blank 2@1; blank 1@0 3@2; shrink 2@1; shrink 1@0 3@2
"""A master gives tasks to workers, and those of the dead to others: with holes, or after a Shrink (ulfm-testing)."""

from array import array

from survive import FAILURES, MPI, WORDS, attempt, die_at, finish, first, lost, rank, report, shrink, until_agreed

TASKS, STOP = 8, -1
done = {}


class Master:
    """Hands out what is not done yet, one task at a time to each worker."""

    def __init__(self, comm):
        self.comm = comm
        self.todo = [task for task in range(TASKS) if task not in done]
        self.doing = {worker: None for worker in range(comm.size) if worker != comm.rank}

    def give(self, worker):
        """Give an idle worker something to do, if there is something."""
        if self.todo:
            self.doing[worker] = self.todo.pop(0)
            attempt(self.comm.Send, array("q", [self.doing[worker]]), worker)  # the next receive says who is dead

    def bury(self):
        """Take back what the dead have not done."""
        self.comm.Ack_failed()
        for worker in MPI.Group.Translate_ranks(self.comm.Get_failed(), None, self.comm.group):
            task = self.doing.pop(worker, None)
            if task is not None and task not in done:
                self.todo.append(task)
        if not self.doing:
            lost(self.comm, "all workers")

    def serve(self, tolerant):
        """Give and take until all is done; where a worker dies go on with the others, or raise."""
        request, answer, status = None, array("q", [0, 0]), MPI.Status()
        while len(done) < TASKS:
            for worker in [worker for worker, task in self.doing.items() if task is None]:
                self.give(worker)
            request = request or self.comm.Irecv(answer, MPI.ANY_SOURCE)
            try:
                request.Wait(status)
                failed = None
            except MPI.Exception as error:
                failed = error
            if failed is None:
                request = None
                done[answer[0]] = answer[1]
                self.doing[status.source] = None
            elif not tolerant or failed.Get_error_class() not in FAILURES:
                raise failed
            else:
                if failed.Get_error_class() == MPI.ERR_PROC_FAILED:
                    request = None  # it is over; one that is pending goes on after the acknowledgement
                self.bury()

    def dismiss(self):
        """Send all home."""
        for worker in self.doing:
            attempt(self.comm.Send, array("q", [STOP]), worker)


def toil(comm, master):
    """Do tasks until told to stop."""
    task, number = array("q", [0]), 0
    while True:
        comm.Recv(task, master)
        if task[0] == STOP:
            return
        die_at(number)
        number += 1
        comm.Send(array("q", [task[0], task[0] ** 2]), master)


def with_holes():
    """Let only the master react to a failure, on the communicator as it is."""
    if rank == 0:
        master = Master(first)
        master.serve(tolerant=True)
        report("result", sum(done.values()))  # now, for nobody would miss a master that dies later
        master.dismiss()
    elif not attempt(toil, first, 0)[1]:
        lost(first, "the master")


def shrinking(comm):
    """Begin with those who are left, whenever one has died."""
    members = comm.allgather(rank)
    if members[0] != 0:
        lost(comm, "the master")
    if rank == 0:
        master = Master(comm)
        master.serve(tolerant=False)
        master.dismiss()
    else:
        toil(comm, 0)


if WORDS[0] == "blank":
    with_holes()
else:
    until_agreed(first, shrinking, shrink)
    if rank == 0:
        report("result", sum(done.values()))
finish()
