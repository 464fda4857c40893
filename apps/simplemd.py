"""Simple molecular dynamics that survives failures: checkpoints on disk or in memory, and ULFM.

N atoms in a closed box attract and repel each other by the Lennard-Jones potential, and bounce off the walls
elastically. All quantities are in units of the atoms' mass and of sigma and epsilon of their potential. The parameters
come from a file of lines such as ``atoms = 108`` (see simplemd.in; --help shows all of them). Positions are on every
rank, and a rank moves its own block of atoms: one Allgather per step. At the start of a step the properties are
evaluated, displayed, and checkpointed with the state, while all ranks wait; --xyz adds a trajectory for VMD.

--recovery selects the response to a process failure:

none     the job ends
restart  the job ends; after a restart, it continues from the last complete checkpoint on disk
ulfm     the others revoke the communicator, shrink it, go back to the last checkpoint on disk, redistribute the
         atoms, and continue
buddy    the same without a disk: each rank keeps its checkpoint twice, in its own memory and in the next rank's

Fault-tolerant collective operations (FTCO) need none of these: the atoms of a failed rank become NaN, and the others
continue without them. Then the last line is "lost: ...", and the exit status is 1. Without a loss rank 0 repeats all
steps, if there are few pairs, and compares the bits.

A rank computes the whole force on each of its atoms in an order that does not depend on the owners of the others, and
rank 0 adds up the energies in the order of the atoms. So the trajectory is bit-identical on any number of ranks, with
failures and without.

    mpirun --with-ft ulfm --oversubscribe -n 4 python simplemd.py simplemd.in --recovery ulfm --fail-at 2:3
    xsim run -n 8 --fail rank=2@300us simplemd.py simplemd.in --recovery ulfm
    xsim run -n 8 --collectives ftco --fail rank=2@300us simplemd.py simplemd.in
    xsim run -n 8 --restart on-abort --fail rank=2@300us simplemd.py simplemd.in --recovery restart
    mpiexec -n 4 python simplemd.py simplemd.in --steps 100 --set dt=0.002 --xyz argon.xyz
"""

from __future__ import annotations

import argparse
import hashlib
import math
import os
import signal
import sys
import time
import zlib
from contextlib import suppress
from typing import Any, NamedTuple

import numpy as np
from mpi4py import MPI

PAIRS_AT_ONCE = 1 << 16  # limits the memory for the forces
ARGON_SIGMA = 3.405  # Angstrom, the unit of XYZ files
KEPT_CHECKPOINTS = 2
MAGIC = "simplemd-checkpoint"
FAR_AWAY = 1e100  # where no atom is felt, though its distances are numbers
MOST_TWIN_PAIRS = 10**8  # of all steps: some seconds of one core


class Refusal(Exception):
    """The run cannot begin or continue: all ranks end with the same exit status."""

    status = 1


class InputError(Refusal):
    """Invalid input of the program; one problem per line."""

    status = 2


class Parameters(NamedTuple):
    """The parameter file."""

    atoms: int = 108
    box: float = 5.0
    temperature: float = 1.0
    cutoff: float = 2.5
    dt: float = 0.004
    steps: int = 10
    seed: int = 1
    checkpoint_every: int = 1
    pair_time_ns: float = 0.0

    @property
    def fingerprint(self) -> str:
        """Return a short fingerprint of the parameters that affect the trajectory."""
        physics = (self.atoms, self.box, self.temperature, self.cutoff, self.dt, self.seed)
        return f"{zlib.crc32(repr(physics).encode()):08x}"


MEANINGS = {
    "atoms": "number of atoms",
    "box": "side of the box",
    "temperature": "of the initial velocities",
    "cutoff": "the distance at which force and potential end, shifted to zero there",
    "dt": "time step",
    "steps": "number of time steps",
    "seed": "of the initial velocities",
    "checkpoint_every": "steps from one evaluation of the properties, with its checkpoint, to the next",
    "pair_time_ns": "nanoseconds to sleep for each pair of atoms, where a simulator does not count computing",
}
MAY_BE_ZERO = ("temperature", "steps", "seed", "pair_time_ns")


def value_of(key: str, text: str) -> int | float:
    """Return a parameter's value from its text, or raise ValueError."""
    kind = type(Parameters._field_defaults[key])
    try:
        value = kind(text)
    except ValueError:
        raise ValueError(f"{key} must be {'a whole number' if kind is int else 'a number'}, not {text!r}") from None
    if not math.isfinite(value) or value < 0 or (value == 0 and key not in MAY_BE_ZERO):
        raise ValueError(f"{key} must be {'finite and at least' if key in MAY_BE_ZERO else 'finite and above'} 0")
    return value


def read_parameters(path: str) -> Parameters:
    """Read a parameter file; raise InputError with all its problems."""
    values: dict[str, Any] = {}
    complaints = []
    try:
        with open(path, encoding="utf-8", errors="replace") as file:
            lines = file.read().split("\n")
    except OSError as error:
        raise InputError(f"{path}: {error.strerror}") from None
    for number, line in enumerate(lines, start=1):
        key, equals, text = (part.strip() for part in line.split("#")[0].partition("="))
        try:
            if not key and not equals:
                continue
            if not equals:
                raise ValueError(f"'{key}' is not of the form: name = value")
            if key not in Parameters._fields:
                raise ValueError(f"unknown parameter '{key}'; there are {', '.join(Parameters._fields)}")
            if key in values:
                raise ValueError(f"{key} is given twice")
            values[key] = Parameters._field_defaults[key]  # a bad value is reported once
            values[key] = value_of(key, text)
        except ValueError as error:
            complaints.append(f"{path}:{number}: {error}")
    if complaints:
        raise InputError("\n".join(complaints))
    return Parameters(**values)


def initial_state(p: Parameters) -> np.ndarray:
    """Return positions on a cubic lattice and random velocities of the given temperature, shape (atoms, 6)."""
    side = next(side for side in range(1, p.atoms + 1) if side**3 >= p.atoms)
    lattice = np.indices((side, side, side)).reshape(3, -1).T[: p.atoms]
    velocities = np.random.default_rng(p.seed).standard_normal((p.atoms, 3))
    if p.atoms > 1:
        velocities -= velocities.mean(axis=0)
    velocities *= math.sqrt(3 * p.atoms * p.temperature / float((velocities * velocities).sum()))
    return np.hstack([(lattice + 0.5) * (p.box / side), velocities])


def forces_on(first: int, own: np.ndarray, positions: np.ndarray, cutoff: float) -> tuple[np.ndarray, np.ndarray]:
    """Return the forces on the atoms `own`, numbered from `first`, and half of their potential.

    Only sums, products, quotients and roots, which all computers round alike, and a separate sum for each atom: the
    result for an atom does not depend on the other atoms computed together with it.
    """
    forces, potential = np.empty_like(own), np.empty(len(own))
    columns, inverse_cubed = np.ascontiguousarray(positions.T), 1 / (cutoff * cutoff * cutoff)
    sixth = inverse_cubed * inverse_cubed
    force_there, potential_there = 24 * sixth * (2 * sixth - 1) / cutoff, 4 * sixth * (sixth - 1)
    rows = max(1, PAIRS_AT_ONCE // len(positions))
    for start in range(0, len(own), rows):
        part = slice(start, min(start + rows, len(own)))
        away = [own[part, axis, None] - columns[axis] for axis in range(3)]
        squares = away[0] * away[0] + away[1] * away[1] + away[2] * away[2]
        squares[np.arange(part.stop - start), np.arange(first + start, first + part.stop)] = math.inf
        inside = squares < cutoff * cutoff
        squares[~inside] = 1
        distances, inverse = np.sqrt(squares), 1 / squares
        sixth_powers = inverse * inverse * inverse
        strength = np.where(inside, 48 * sixth_powers * (sixth_powers - 0.5) * inverse - force_there / distances, 0)
        for axis in range(3):
            forces[part, axis] = (strength * away[axis]).sum(axis=1)
        pairs = 4 * sixth_powers * (sixth_powers - 1) - potential_there + (distances - cutoff) * force_there
        potential[part] = 0.5 * np.where(inside, pairs, 0).sum(axis=1)
    return forces, potential


def drift(p: Parameters, x: np.ndarray, v: np.ndarray, forces: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Move atoms for one step and reflect them at walls; return positions and velocities.

    The half kick before the drift assumes a force of constant direction for the whole step. For a reflected atom the
    direction is reversed after the time t to the wall. Without the correction dt - 2 t each collision would change the
    energy by an amount of the order of dt, and the drift of the energy would not be of the order of dt**2.
    """
    moved = x + p.dt * v
    low, high = moved < 0, moved > p.box
    out = low | high
    until_wall = np.where(low, -x, p.box - x) / np.where(out, v, 1)
    velocities = np.where(out, forces * (p.dt - 2 * until_wall) - v, v)
    return np.where(low, -moved, np.where(high, 2 * p.box - moved, moved)), velocities


# ------------------------------------------------------------------------------------------------------------- recovery


class Disk:
    """The last complete checkpoints, as files PREFIX.STEP.ckpt; only rank 0 reads and writes them."""

    def __init__(self, prefix: str) -> None:
        self.prefix = prefix
        self.kept: list[str] = []

    def find(self) -> list[str]:
        """Return all existing checkpoint files, oldest first."""
        folder, name = os.path.split(self.prefix)
        names = [entry for entry in os.listdir(folder or ".") if entry.startswith(f"{name}.")]
        steps = {entry: entry.removeprefix(f"{name}.").removesuffix(".ckpt") for entry in names}
        there = [entry for entry, step in steps.items() if step.isdecimal() and entry.endswith(".ckpt")]
        return [os.path.join(folder, entry) for entry in sorted(there, key=lambda entry: int(steps[entry]))]

    def clear(self) -> None:
        """Remove the files of earlier jobs."""
        for path in self.find():
            os.remove(path)
        self.kept = []

    def write(self, step: int, properties: str, fingerprint: str, state: np.ndarray) -> None:
        """Write a checkpoint, rename it when complete, and remove the oldest."""
        data = state.tobytes()
        header = (
            f"{MAGIC} step {step} atoms {len(state)} parameters {fingerprint} sum {zlib.crc32(data):08x} {properties}"
        )
        path = f"{self.prefix}.{step:08d}.ckpt"
        with open(f"{path}.tmp", "wb") as file:
            file.write(f"{header}\n".encode() + data)
        os.replace(f"{path}.tmp", path)
        self.kept = [*(other for other in self.kept if other != path), path]
        while len(self.kept) > KEPT_CHECKPOINTS:
            with suppress(FileNotFoundError):
                os.remove(self.kept.pop(0))

    def read_last(self, fingerprint: str) -> tuple[int, np.ndarray] | None:
        """Return step and state of the last complete checkpoint, and drop later incomplete ones."""
        self.kept = self.find()
        while self.kept:
            with open(self.kept[-1], "rb") as file:
                header, _, data = file.read().partition(b"\n")
            words = header.decode(errors="replace").split()
            fields = dict(zip(words[1::2], words[2::2], strict=False))
            if words[:1] == [MAGIC] and fields.get("sum") == f"{zlib.crc32(data):08x}":
                if fields["parameters"] != fingerprint:
                    raise InputError(f"{self.kept[-1]}: a checkpoint of a run with other parameters")
                return int(fields["step"]), np.frombuffer(data).reshape(-1, 6)
            os.remove(self.kept.pop())
        return None


class Copies(NamedTuple):
    """One checkpoint in a rank's memory: its own block of atoms and the previous rank's."""

    serial: int
    step: int
    members: tuple[int, ...]
    blocks: np.ndarray


class Buddy:
    """Checkpoints in memory, twice each: on the rank itself and on the next one.

    A checkpoint is complete when some rank has left the Barrier after it, because then all ranks hold it. So each rank
    keeps the last one that it knows to be complete, and a later one that may not be. After a failure all survivors hold
    the last one that any of them knows to be complete.
    """

    def __init__(self) -> None:
        self.complete: Copies | None = None
        self.fresh: Copies | None = None

    def exchange(self, comm: MPI.Comm, recoveries: int, step: int, block: np.ndarray) -> None:
        """Send the own block to the next rank and receive that of the previous one."""
        blocks = np.stack([block, np.empty_like(block)])
        after, before = (comm.rank + 1) % comm.size, (comm.rank - 1) % comm.size
        comm.Sendrecv(blocks[0], dest=after, recvbuf=blocks[1], source=before)
        # After a rollback the same step is a new checkpoint, on other ranks.
        self.fresh = Copies((recoveries << 40) + step, step, members_of(comm), blocks)

    def completed(self) -> None:
        """Record that all ranks hold the new checkpoint."""
        self.complete, self.fresh = self.fresh, None

    def restore(self, comm: MPI.Comm, atoms: int) -> tuple[int, np.ndarray] | None:
        """Return step and state of the last complete checkpoint from the survivors' data."""
        known = np.array([self.complete.serial if self.complete else -1])
        comm.Allreduce(MPI.IN_PLACE, known, op=MPI.MAX)  # no reduction of objects: a revocation does not reach those
        if (serial := int(known[0])) < 0:
            return None
        held = next(copies for copies in (self.complete, self.fresh) if copies and copies.serial == serial)
        blocks = np.empty((comm.size, *held.blocks.shape))
        comm.Allgather(held.blocks, blocks)
        self.complete = held
        alive = {member: rank for rank, member in enumerate(members_of(comm))}
        parts = []
        for index, member in enumerate(held.members):
            partner = held.members[(index + 1) % len(held.members)]
            if member not in alive and partner not in alive:
                raise Refusal(f"lost: the atoms of rank {member}, with both copies (ranks {member} and {partner})")
            parts.append(blocks[alive[member], 0] if member in alive else blocks[alive[partner], 1])
        return held.step, np.concatenate(parts)[:atoms]


def members_of(comm: MPI.Comm) -> tuple[int, ...]:
    """Return the ranks in COMM_WORLD of the members of `comm`."""
    return tuple(MPI.Group.Translate_ranks(comm.Get_group(), None, MPI.COMM_WORLD.Get_group()))


def rewind_trajectory(path: str, frames: int, atoms: int) -> None:
    """Truncate an XYZ file after a number of frames."""
    kept: list[str] = []
    if frames:
        with open(path, encoding="utf-8") as file:
            kept = file.read().splitlines(keepends=True)[: frames * (atoms + 2)]
    with open(f"{path}.tmp", "w", encoding="utf-8") as file:
        file.write("".join(kept))
    os.replace(f"{path}.tmp", path)


# ------------------------------------------------------------------------------------------------------- the simulation


class Simulation:
    """One job: its parameters, and its state on this rank."""

    def __init__(self, arguments: argparse.Namespace, comm: MPI.Comm) -> None:
        self.arguments = arguments
        self.comm = comm
        self.parameters: Parameters | None = None
        self.uses_disk = arguments.recovery != "buddy"
        self.disk = Disk(arguments.checkpoint)
        self.buddy = Buddy()
        self.recoveries = 0  # the same on all, because all take part in each Shrink
        self.last: np.ndarray | None = None  # the state after the last step, on rank 0

    def plan(self) -> tuple[dict[str, Any], np.ndarray | None]:
        """Read the input on rank 0; return the data for the others, and the state to continue from."""
        a = self.arguments
        try:
            p = read_parameters(a.parameters)._replace(**dict(a.set))
            found = None
            if self.uses_disk:
                # A rank without the parameters has not taken part in any checkpoint: there is none.
                if self.parameters is None and a.recovery != "restart":
                    self.disk.clear()
                found = self.disk.read_last(p.fingerprint)
        except OSError as error:
            return {"error": f"{error.filename}: {error.strerror}"}, None
        except InputError as error:
            return {"error": str(error)}, None
        step, state = found or (None, None)
        if step is not None and step > p.steps:
            return {"error": f"the last checkpoint is of step {step}, beyond the last of {p.steps} steps"}, None
        return {"parameters": p._asdict(), "step": step}, state

    def begin(self) -> tuple[int, bool]:
        """Give every rank its atoms; return the first step, and whether its checkpoint was found."""
        message, state = self.plan() if self.comm.rank == 0 else ({}, None)
        message = self.comm.bcast(message, root=0)
        if "error" in message:
            raise InputError(message["error"])
        p = self.parameters = Parameters(**message["parameters"])
        step = message["step"]
        if step is not None:
            state = np.array(state) if self.comm.rank == 0 else np.empty((p.atoms, 6))
            self.comm.Bcast(state, root=0)
        elif self.recoveries and not self.uses_disk:
            step, state = self.buddy.restore(self.comm, p.atoms) or (None, None)
        found = step is not None
        if state is None:
            step, state = 0, initial_state(p)
        self.block_size = -(-p.atoms // self.comm.size)
        self.first = min(p.atoms, self.comm.rank * self.block_size)
        own = slice(self.first, min(p.atoms, self.first + self.block_size))
        self.positions, self.velocities = state[:, :3].copy(), state[own, 3:].copy()
        self.own = own
        self.compute_forces()
        if self.comm.rank == 0:
            if self.arguments.xyz:
                rewind_trajectory(self.arguments.xyz, -(-step // p.checkpoint_every), p.atoms)
            how = "from a checkpoint" if found else "from the beginning"
            print(f"simplemd: {p.atoms} atoms on {self.comm.size} ranks, step {step}, {how}", flush=True)
        return step, found

    def compute_forces(self) -> None:
        """Compute the forces on this rank's atoms."""
        p, own = self.parameters, self.positions[self.own]
        others = np.where(np.isnan(self.positions), FAR_AWAY, self.positions)
        self.forces, self.potential = forces_on(self.first, own, others, p.cutoff)
        if p.pair_time_ns:
            time.sleep(len(own) * p.atoms * p.pair_time_ns * 1e-9)

    def padded(self, rows: np.ndarray) -> np.ndarray:
        """Return this rank's rows as a block of the common size."""
        return np.vstack([rows, np.zeros((self.block_size - len(rows), rows.shape[1]))])

    def advance(self, dies: bool) -> None:
        """Do one step of velocity Verlet."""
        p, comm = self.parameters, self.comm
        self.velocities += 0.5 * p.dt * self.forces
        moved, self.velocities = drift(p, self.positions[self.own], self.velocities, self.forces)
        if dies:
            os.kill(os.getpid(), signal.SIGKILL)
        moved[np.isnan(moved)] = math.inf  # because NaN marks a lost atom
        gathered = np.empty((comm.size * self.block_size, 3))
        comm.Allgather(self.padded(moved), gathered)
        self.positions = gathered[: p.atoms].copy()
        if ((self.positions < 0) | (self.positions > p.box)).any():
            raise Refusal("an atom has left the box: dt is too long")
        self.compute_forces()
        self.velocities += 0.5 * p.dt * self.forces

    def record(self, step: int) -> None:
        """Evaluate and display the properties and make a checkpoint, while all ranks wait."""
        p, v = self.parameters, self.velocities
        kinetic = 0.5 * (v[:, 0] * v[:, 0] + v[:, 1] * v[:, 1] + v[:, 2] * v[:, 2])
        rows = [kinetic[:, None], self.potential[:, None]]
        if self.uses_disk or step == p.steps:
            rows.append(v)
        block = self.padded(np.hstack(rows))
        gathered = np.empty((self.comm.size * self.block_size, block.shape[1])) if self.comm.rank == 0 else None
        self.comm.Gather(block, gathered, root=0)
        if gathered is not None:
            self.display(step, gathered[: p.atoms])
        if not self.uses_disk:
            self.buddy.exchange(self.comm, self.recoveries, step, self.padded(np.hstack([self.positions[self.own], v])))
        self.comm.Barrier()
        if not self.uses_disk:
            self.buddy.completed()

    def display(self, step: int, atoms: np.ndarray) -> None:
        """Display and write the gathered energies, and perhaps velocities, of all atoms on rank 0."""
        p = self.parameters
        kept = ~np.isnan(atoms).any(axis=1)
        kinetic, potential = float(atoms[kept, 0].sum()), float(atoms[kept, 1].sum())
        temperature = 2 * kinetic / (3 * kept.sum())
        if not kept.all():
            print(f"simplemd: {p.atoms - kept.sum()} of {p.atoms} atoms are lost", flush=True)
        properties = f"T {temperature:.8f} Ekin {kinetic:.8f} Epot {potential:.8f} Etot {kinetic + potential:.8f}"
        print(f"step {step}: {properties}", flush=True)
        if self.arguments.xyz:
            lines = [f"Ar {x:.8f} {y:.8f} {z:.8f}\n" for x, y, z in self.positions * ARGON_SIGMA]
            with open(self.arguments.xyz, "a", encoding="utf-8") as file:
                file.write(f"{p.atoms}\nstep {step} {properties}\n{''.join(lines)}")
        if atoms.shape[1] > 2:
            state = self.last = np.hstack([self.positions, atoms[:, 2:]])
            if self.uses_disk and kept.all():
                self.disk.write(step, properties, p.fingerprint, state)

    def run(self) -> None:
        """Simulate from the beginning or the last checkpoint to the last step."""
        start, found = self.begin()
        p = self.parameters
        fatal = {step for rank, step in self.arguments.fail_at if rank == MPI.COMM_WORLD.rank}
        if found and self.arguments.recovery == "restart":
            # A restarted rank has already failed between this checkpoint and the next.
            fatal.difference_update(range(start, start + p.checkpoint_every))
        for step in range(start, p.steps + 1):
            if step % p.checkpoint_every == 0 or step == p.steps:
                self.record(step)
            if step < p.steps:
                self.advance(dies=step in fatal)


# ------------------------------------------------------------------------------------------------------------- recovery


def run_and_recover(simulation: Simulation) -> None:
    """Run; after failures continue without the failed ranks, until the survivors agree on success."""
    while True:
        comm, error = simulation.comm, None
        try:
            simulation.run()
        except Refusal as refusal:
            error = refusal  # all refuse, unless a failure prevented some from learning of it
        except MPI.Exception as met:
            error = met
            comm.Revoke()  # no rank may wait for ranks that have left for the recovery
        # Some ranks do not see a failure during the last steps, and assume success.
        if has_succeeded_everywhere(comm, error is None):
            return
        smaller = comm.Shrink()
        if smaller.size == comm.size:
            raise error or Refusal("another rank has met an error")  # no rank is missing: it was not a failure
        smaller.Set_errhandler(MPI.ERRORS_RETURN)
        if smaller.rank == 0:
            print(f"simplemd: {comm.size - smaller.size} of {comm.size} ranks failed", flush=True)
        if comm != MPI.COMM_WORLD:
            comm.Free()
        simulation.comm = smaller
        simulation.recoveries += 1


def has_succeeded_everywhere(comm: MPI.Comm, success: bool) -> bool:
    """Return True, on all members, if all members of `comm` have succeeded and none has failed."""
    try:
        return bool(comm.Agree(int(success)))
    except MPI.Exception:
        return False


# ----------------------------------------------------------------------------------------------------------------- main


def victim(text: str) -> tuple[int, int]:
    """Return rank and step of RANK:STEP."""
    rank, _, step = text.partition(":")
    if not (rank.isdecimal() and step.isdecimal()):
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form RANK:STEP")
    return int(rank), int(step)


def setting(text: str) -> tuple[str, int | float]:
    """Return name and value of NAME=VALUE."""
    key, equals, value = (part.strip() for part in text.partition("="))
    if not equals or key not in Parameters._fields:
        raise argparse.ArgumentTypeError(f"{text!r} is not NAME=VALUE with one of {', '.join(Parameters._fields)}")
    try:
        return key, value_of(key, value)
    except ValueError as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    names = "\n".join(f"  {key} = {Parameters._field_defaults[key]}: {meaning}" for key, meaning in MEANINGS.items())
    parser = argparse.ArgumentParser(
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=f"parameters, with their defaults:\n{names}",
    )
    parser.add_argument("parameters", metavar="PARAMS", help="the parameter file")
    parser.add_argument("--recovery", choices=("none", "ulfm", "buddy", "restart"), default="none")
    one = {"metavar": "NAME=VALUE", "type": setting, "action": "append", "default": []}
    parser.add_argument("--set", **one, help="one parameter, instead of that in the file")
    steps = {"metavar": "N", "type": lambda text: setting(f"steps={text}"), "action": "append", "dest": "set"}
    parser.add_argument("--steps", **steps, help="number of time steps: short for --set steps=N")
    parser.add_argument("--xyz", metavar="FILE", help="write a trajectory, in Angstrom for argon")
    parser.add_argument("--checkpoint", metavar="PREFIX", default="simplemd", help="prefix of the checkpoint files")
    parser.add_argument(
        "--fail-at", metavar="RANK:STEP", type=victim, action="append", default=[], help="this rank fails in this step"
    )
    return parser.parse_args()


def main() -> None:
    """Simulate, and print on rank 0 a digest of the last positions and velocities, and the time."""
    arguments = parse_arguments()
    begin = MPI.Wtime()
    # No duplicate: a failure during Dup would not be handled.
    simulation = Simulation(arguments, MPI.COMM_WORLD)
    recovers = arguments.recovery in ("ulfm", "buddy")
    simulation.comm.Set_errhandler(MPI.ERRORS_RETURN if recovers else MPI.ERRORS_ARE_FATAL)
    try:
        size = MPI.COMM_WORLD.size
        wrong = [f"--fail-at {r}:{step}: no such rank among {size}" for r, step in arguments.fail_at if r >= size]
        if wrong:
            raise InputError("\n".join(wrong))
        if recovers:
            run_and_recover(simulation)
        else:
            simulation.run()
    except Refusal as refusal:
        if simulation.comm.rank == 0:
            lines = str(refusal).split("\n")
            if not lines[0].startswith("lost: "):
                print("\n".join(f"simplemd: {line}" for line in lines), file=sys.stderr, flush=True)
            else:
                print(lines[0])
        raise SystemExit(refusal.status) from None
    except OSError as error:
        print(f"simplemd: {error.filename}: {error.strerror}", file=sys.stderr, flush=True)
        MPI.COMM_WORLD.Abort(1)
    if simulation.comm.rank == 0:
        print(f"final state: {hashlib.sha256(simulation.last.tobytes()).hexdigest()[:16]}")
        print(f"time: {(MPI.Wtime() - begin) * 1e6:.3f} us")
        judge(simulation.parameters, simulation.last)
    if any(state is not None and np.isnan(state).any() for state in (simulation.positions, simulation.last)):
        raise SystemExit(1)


def judge(p: Parameters, state: np.ndarray) -> None:
    """Return True if the last state has all atoms, and the bits of a short serial run."""
    if lost := int(np.isnan(state).any(axis=1).sum()):
        print(f"lost: {lost} of {p.atoms} atoms, with the ranks that moved them")
    elif (p.steps + 1) * p.atoms**2 <= MOST_TWIN_PAIRS:
        x, v = np.hsplit(initial_state(p), 2)
        forces = forces_on(0, x, x, p.cutoff)[0]
        for _ in range(p.steps):
            v += 0.5 * p.dt * forces
            x, v = drift(p, x, v, forces)
            forces = forces_on(0, x, x, p.cutoff)[0]
            v += 0.5 * p.dt * forces
        print(f"right: {np.array_equal(np.hstack([x, v]), state)}")


if __name__ == "__main__":
    main()
