"""Walks through a program that is data, under whatever MPI it is given, and logs what each call gave.

A program is a list of steps, ``{"do": name, argument: value}``. All ranks walk through all steps in the same order and
each does its part of a step. So the rank that is furthest behind can always go on, and no program waits for ever:
nothing in a step waits for a later one. Every argument is a number that is legal whatever it is (a rank is taken
modulo the size of its communicator, a communicator modulo their number), so any list of steps is a program.

The functions of the steps are in the modules beside this one. `STEPS` has them, with the domain of each argument: a
number n for 0 to n - 1, a list of choices, or ``"base"`` or ``"shape"`` (see `tests.fuzz.types`).
"""

STEPS = {}
ROOM_BYTES = 1 << 21  # for buffered sends


def step(**domains):
    """Make a function a step."""

    def register(function):
        STEPS[function.__name__] = (function, domains)
        return function

    return register


class Run:
    """One rank's state while it walks through a program."""

    def __init__(self, mpi, world):
        self.mpi = mpi
        self.world = world
        self.rank = world.rank
        self.comms = [world]
        self.inters, self.sides = [], []
        self.topologies = []
        self.pending = []
        self.ops = []
        self.log = []
        self.number = 0
        self.errors = {getattr(mpi, name): name for name in dir(mpi) if name.startswith("ERR_")}
        self.names = {mpi.UNDEFINED: "UNDEFINED", mpi.PROC_NULL: "PROC_NULL"}

    def note(self, *values, number=None):
        """Log what a call gave."""
        self.log.append([self.number if number is None else number, *values])

    def pick(self, comms, index):
        """One of some communicators; None where this rank is not in it."""
        comm = comms[index % len(comms)] if comms else self.mpi.COMM_NULL
        return None if comm == self.mpi.COMM_NULL else comm

    def facing(self, index):
        """An intercommunicator, and on which of its sides this rank is: 0 or 1."""
        comm = self.pick(self.inters, index)
        return comm, None if comm is None else self.sides[index % len(self.inters)]

    def add_facing(self, comm, side=None):
        """One more intercommunicator."""
        self.inters.append(comm)
        self.sides.append(side)

    def named(self, value):
        """A rank or a count, or the name of the constant that it is."""
        return self.names.get(value, value) if value < 0 else value

    def status(self, status, datatype=None):
        """The fields of a status."""
        tag = "ANY_TAG" if status.tag == self.mpi.ANY_TAG else status.tag
        found = [self.named(status.source), tag, status.Is_cancelled()]
        if datatype is not None:
            found += [self.named(status.Get_count(datatype)), self.named(status.Get_elements(datatype))]
        return found

    def attempt(self, call, *arguments, **options):
        """The result of a call, or None once its error has been logged."""
        try:
            return call(*arguments, **options)
        except Exception as error:
            self.note(self.described(error))
            return None

    def described(self, error):
        """What a call raised, as both sides must agree on it."""
        if isinstance(error, self.mpi.Exception):
            return self.errors.get(error.Get_error_class(), "?")
        return type(error).__name__

    def later(self, request, finish):
        """Leave a request for the end, or for the next step that completes them; `finish` logs what it gave."""
        self.pending.append((request, finish, self.number))

    def complete(self):
        """Wait for all that was left."""
        for request, finish, number in self.pending:
            status = self.mpi.Status()
            try:
                request.Wait(status)
            except Exception as error:
                self.note(self.described(error), number=number)
                continue
            finish(status, number)
        self.pending.clear()

    def walk(self, steps):
        """Walk through a program and return the log."""
        room = bytearray(ROOM_BYTES)
        self.mpi.Attach_buffer(room)
        for self.number, described in enumerate(steps):
            arguments = dict(described)
            function = STEPS[arguments.pop("do")][0]
            try:
                function(self, **arguments)
            except Exception as error:
                self.note("raised", self.described(error))
        self.number = len(steps)
        self.complete()
        self.mpi.Detach_buffer()
        for op in self.ops:
            op.Free()
        self.world.Barrier()
        for comm in [*self.inters, *self.topologies, *self.comms]:
            if comm != self.mpi.COMM_NULL and comm != self.world:
                comm.Free()
        return self.log


@step()
def complete(run):
    """Wait for all that has begun."""
    run.complete()
