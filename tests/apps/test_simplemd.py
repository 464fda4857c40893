"""The physics of apps/simplemd.py, its files, and that neither ranks nor roll-backs change a bit of the trajectory."""

import math
from importlib.util import module_from_spec, spec_from_file_location
from itertools import pairwise
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from tests.apps.helpers import APPS, PARAMETERS, md, simulated, spoilt
from xsim_py import simulate

MEANINGS = ("atoms", "box", "temperature", "cutoff", "dt", "steps", "seed", "checkpoint_every", "pair_time_ns")


def within_the_app(function: Any) -> Any:
    """Call `function` with simplemd.py as a module, on one simulated rank."""

    def rank() -> Any:
        spec = spec_from_file_location("simplemd", APPS / "simplemd.py")
        module = module_from_spec(spec)
        spec.loader.exec_module(module)
        return function(module)

    return simulate(rank, ranks=1).values[0]


def drift_of_energy(folder: Path, halvings: int, **settings: object) -> float:
    """The largest change of the energy within one unit of time."""
    steps = 250 << halvings
    told = {"dt": 0.004 / 2**halvings, "steps": steps, "checkpoint_every": steps // 50, **settings}
    energies = md(folder, *(f"--set={name}={value}" for name, value in told.items())).energies
    assert len(energies) == 51
    return max(abs(energy - energies[0]) for energy in energies)


# ------------------------------------------------------------------------------------------------------------- physics


def test_half_the_time_step_quarters_the_drift_of_the_energy_also_at_the_walls(tmp_path: Path):
    """A dense fluid, which meets the walls about 150 times in this time."""
    drifts = [drift_of_energy(tmp_path, halvings) for halvings in range(3)]
    ratios = [coarse / fine for coarse, fine in pairwise(drifts)]
    assert all(3 < ratio < 5 for ratio in ratios), drifts
    assert 3.6 < math.sqrt(drifts[0] / drifts[-1]) < 4.4, drifts


def test_atoms_that_meet_only_walls_keep_their_energy_to_rounding(tmp_path: Path):
    assert drift_of_energy(tmp_path, 0, atoms=8, box=40, temperature=100) < 1e-7


def test_forces_are_what_the_potential_says_and_cancel(tmp_path: Path):
    def check(app: ModuleType) -> None:
        cutoff, nudge = 2.5, 1e-6
        positions = app.initial_state(app.Parameters(atoms=60, box=4.6))[:, :3]
        positions += 0.05 * np.sin(np.arange(positions.size).reshape(-1, 3))
        forces, potential = app.forces_on(0, positions, positions, cutoff)
        assert np.abs(forces.sum(axis=0)).max() < 1e-9 * np.abs(forces).max()
        for atom, axis in ((0, 0), (17, 1), (59, 2)):
            energies = []
            for sign in (-1, 1):
                moved = positions.copy()
                moved[atom, axis] += sign * nudge
                energies.append(app.forces_on(0, moved, moved, cutoff)[1].sum())
            slope = (energies[1] - energies[0]) / (2 * nudge)
            assert forces[atom, axis] == pytest.approx(-slope, rel=1e-5)
        assert potential.sum() < 0

    within_the_app(check)


def test_potential_and_force_are_those_of_lennard_and_jones_shifted_to_end_at_the_cut_off():
    def check(app: ModuleType) -> None:
        def at(distance: float, cutoff: float) -> tuple[float, float]:
            pair = np.array([[1.0, 1.0, 1.0], [1.0 + distance, 1.0, 1.0]])
            forces, potential = app.forces_on(0, pair, pair, cutoff)
            return -forces[0, 0], potential.sum()

        far = 1e4  # the shift is nothing
        assert at(2 ** (1 / 6), far) == pytest.approx((0, -1), abs=1e-12)
        assert at(1.0, far) == pytest.approx((24, 0), abs=1e-12)
        assert at(2.5 - 1e-9, 2.5) == pytest.approx((0, 0), abs=1e-8)
        assert at(2.5 + 1e-9, 2.5) == (0, 0)

    within_the_app(check)


def test_walls_throw_back(tmp_path: Path):
    def check(app: ModuleType) -> None:
        p = app.Parameters(box=5.0, dt=0.5)
        x, v = np.array([[0.5, 4.5, 2.0]]), np.array([[-3.0, 3.0, 1.0]])
        moved, velocities = app.drift(p, x, v, np.zeros_like(x))
        assert moved.tolist() == [[1.0, 4.0, 2.5]]
        assert velocities.tolist() == [[3.0, -3.0, 1.0]]

    within_the_app(check)


# ------------------------------------------------------------------------------------------- one trajectory, to the bit


def test_the_trajectory_is_the_same_on_any_number_of_ranks(tmp_path: Path):
    files, finals = set(), set()
    for ranks in (1, 2, 3, 7, 16, 130):
        finals.add(md(tmp_path, "--xyz", tmp_path / "md.xyz", ranks=ranks).final)
        files.add((tmp_path / "md.xyz").read_bytes())
    assert (len(files), len(finals)) == (1, 1)


def test_the_trajectory_is_the_same_where_forces_are_computed_in_several_parts(tmp_path: Path):
    told = ("--set", "atoms=500", "--set", "box=9", "--steps", 3)
    assert len({md(tmp_path, *told, ranks=ranks).final for ranks in (1, 2, 5)}) == 1


def test_an_xyz_file_has_a_frame_for_each_evaluation(tmp_path: Path):
    md(tmp_path, "--xyz", tmp_path / "md.xyz", "--steps", 5, "--set", "checkpoint_every=2", ranks=3)
    lines = (tmp_path / "md.xyz").read_text().splitlines()
    frames = [lines[start : start + 110] for start in range(0, len(lines), 110)]
    assert [frame[1].split()[:2] for frame in frames] == [["step", step] for step in "0245"]
    for frame in frames:
        atoms = [line.split() for line in frame[2:]]
        assert frame[0] == "108"
        assert {atom[0] for atom in atoms} == {"Ar"}
        positions = np.array([atom[1:] for atom in atoms], dtype=float)
        assert positions.shape == (108, 3)
        assert positions.min() >= 0
        assert positions.max() <= 5.0 * 3.405


# --------------------------------------------------------------------------------------------- checkpoints and restarts


def checkpoints(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.glob("md.*"))


def test_two_checkpoints_are_kept_and_a_fresh_run_removes_those_of_another(tmp_path: Path):
    md(tmp_path, "--steps", 5, ranks=2)
    assert checkpoints(tmp_path) == ["md.00000004.ckpt", "md.00000005.ckpt"]
    md(tmp_path, "--steps", 2, ranks=2)
    assert checkpoints(tmp_path) == ["md.00000001.ckpt", "md.00000002.ckpt"]


def test_a_restarted_run_ends_like_one_that_never_stopped(tmp_path: Path):
    whole = md(tmp_path, "--steps", 8, "--xyz", tmp_path / "whole.xyz")
    told = ("--recovery", "restart", "--xyz", tmp_path / "parts.xyz")
    for path in tmp_path.glob("md.*"):
        path.unlink()
    md(tmp_path, "--steps", 3, *told, ranks=3)
    last = md(tmp_path, "--steps", 8, *told, ranks=5)
    assert "step 3, from a checkpoint" in last.out
    assert last.final == whole.final
    assert (tmp_path / "parts.xyz").read_bytes() == (tmp_path / "whole.xyz").read_bytes()


@pytest.mark.parametrize("kept", [0, 30, 200, -1])
def test_a_torn_checkpoint_is_passed_over(tmp_path: Path, kept: int):
    whole = md(tmp_path, "--steps", 6)
    torn = tmp_path / "md.00000006.ckpt"
    torn.write_bytes(torn.read_bytes()[:kept])
    again = md(tmp_path, "--steps", 6, "--recovery", "restart")
    assert "step 5, from a checkpoint" in again.out
    assert again.final == whole.final


def test_a_restart_without_any_checkpoint_begins_at_the_beginning(tmp_path: Path):
    assert md(tmp_path, "--recovery", "restart").final == md(tmp_path).final


def test_no_trajectory_goes_on_from_a_checkpoint_of_another(tmp_path: Path):
    md(tmp_path)
    other = md(tmp_path, "--recovery", "restart", "--set", "seed=2", ranks=3)
    assert (other.status, "a checkpoint of a run with other parameters" in other.err) == (2, True)
    shorter = md(tmp_path, "--recovery", "restart", "--steps", 2, ranks=3)
    assert (shorter.status, "step 4, beyond the last of 2 steps" in shorter.err) == (2, True)


# ------------------------------------------------------------------------------------------------------------ bad input


def test_every_bad_line_of_a_parameter_file_is_named(tmp_path: Path):
    bad = tmp_path / "bad.in"
    bad.write_text(
        "atoms 3\nbox = -1\nfoo=2\n\n# comment\ndt=0.1 # fine\ndt = 0.2\nseed = 1.5\ncutoff = nan\nsteps =\n"
    )
    run = md(tmp_path, ranks=3, parameters=bad)
    assert (run.status, run.out) == (2, "")
    assert [line.split(": ")[1:3] for line in run.err.splitlines()] == [
        [f"{bad}:1", "'atoms 3' is not of the form"],
        [f"{bad}:2", "box must be finite and above 0"],
        [
            f"{bad}:3",
            "unknown parameter 'foo'; there are " + ", ".join(MEANINGS),
        ],
        [f"{bad}:7", "dt is given twice"],
        [f"{bad}:8", "seed must be a whole number, not '1.5'"],
        [f"{bad}:9", "cutoff must be finite and above 0"],
        [f"{bad}:10", "steps must be a whole number, not ''"],
    ]


@pytest.mark.parametrize(
    ("args", "complaint"),
    [
        (["--steps", "-1"], "steps must be finite and at least 0"),
        (["--set", "dt=0"], "dt must be finite and above 0"),
        (["--set", "foo=0"], "'foo=0' is not NAME=VALUE"),
        (["--fail-at", "2"], "'2' is not of the form RANK:STEP"),
        (["--fail-at", "2:1"], "--fail-at 2:1: no such rank among 2"),
    ],
)
def test_arguments_without_sense_are_refused(tmp_path: Path, args: list[str], complaint: str):
    run = md(tmp_path, *args, ranks=2)
    assert (run.status, run.out) == (2, "")
    assert complaint in run.err


def test_files_that_are_not_there_are_named(tmp_path: Path):
    run = md(tmp_path, ranks=2, parameters=tmp_path / "none.in")
    assert (run.status, run.err) == (2, f"simplemd: {tmp_path / 'none.in'}: No such file or directory\n")
    run = md(tmp_path / "none", ranks=2)
    assert (run.status, run.err) == (2, f"simplemd: {tmp_path / 'none'}: No such file or directory\n")
    run = md(tmp_path, "--xyz", tmp_path / "none" / "md.xyz", ranks=2)
    assert run.status == 1
    assert "No such file or directory" in run.err


def test_a_time_step_that_throws_atoms_out_of_the_box_ends_the_run(tmp_path: Path):
    run = md(tmp_path, "--set", "dt=10", ranks=2)
    assert (run.status, run.err) == (1, "simplemd: an atom has left the box: dt is too long\n")


# ---------------------------------------------------------------------------------------------------------- the verdict


def test_under_ftco_the_others_finish_without_the_atoms_of_a_failed_rank_and_say_so(tmp_path: Path):
    told = {"ranks": 16, "fail": "rank=5@900us", "collectives": "ftco"}
    runs = [md(tmp_path, shards=shards, **told) for shards in (1, 3)]
    assert runs[0] == runs[1]
    assert (runs[0].status, runs[0].err) == (1, "")
    lines = runs[0].out.splitlines()
    assert lines[-1] == "lost: 7 of 108 atoms, with the ranks that moved them"
    assert "simplemd: 7 of 108 atoms are lost" in lines
    assert len(runs[0].energies) == 5
    assert all(map(math.isfinite, runs[0].energies))
    kept = max(tmp_path.glob("md.*.ckpt")).read_bytes().partition(b"\n")[2]
    assert np.isfinite(np.frombuffer(kept)).all()  # what lacks atoms is no checkpoint


def test_a_lost_atom_is_felt_by_no_other(tmp_path: Path):
    """The energy of those that are left is conserved from the loss on."""
    told = {"ranks": 8, "fail": "rank=5@300us", "collectives": "ftco"}
    energies = md(tmp_path, "--steps=40", "--set=dt=0.001", **told).energies
    at = max(range(40), key=lambda step: abs(energies[step + 1] - energies[step])) + 1
    assert abs(energies[at] - energies[at - 1]) > 1
    assert max(abs(energy - energies[at]) for energy in energies[at:]) < 0.05


@pytest.mark.parametrize(
    ("old", "new", "verdict"),
    [
        ("", "", "right: True"),
        ("np.concatenate(parts)[:atoms]", "np.concatenate(parts)[:atoms] * (1 + 1e-15)", "right: False"),
        ("blocks[alive[partner], 1])", "blocks[alive[partner], 1][::-1])", "right: False"),
    ],
)
def test_the_verdict_sees_a_recovery_that_gives_other_bits_back(tmp_path: Path, old: str, new: str, verdict: str):
    app = spoilt(tmp_path, "simplemd.py", old, new) if old else APPS / "simplemd.py"
    run = simulated(app, PARAMETERS, "--recovery", "buddy", ranks=6, fail="rank=2@500us", ft=True)
    assert run.out.splitlines()[-1] == verdict


def test_atoms_whose_copies_are_both_gone_are_said_to_be_lost(tmp_path: Path):
    run = md(tmp_path, "--recovery", "buddy", ranks=6, fail=["rank=2@500us", "rank=3@500us"], ft=True)
    assert (run.status, run.err) == (1, "")
    assert run.out.splitlines()[-1] == "lost: the atoms of rank 2, with both copies (ranks 2 and 3)"


def test_a_run_of_too_many_pairs_has_no_verdict(tmp_path: Path):
    app = spoilt(tmp_path, "simplemd.py", "MOST_TWIN_PAIRS = 10**8", "MOST_TWIN_PAIRS = 10**4")
    run = simulated(app, PARAMETERS, "--checkpoint", tmp_path / "md", ranks=2)
    assert run.out.splitlines()[-1].startswith("time: ")
