"""Which runs a study has, with what settings, and when two of them are the same."""

import itertools
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from xsim_py.errors import ConfigError
from xsim_py.study import load_study, plan_runs
from xsim_py.study.condition import Condition
from xsim_py.study.plan import PlannedRun

RING: dict[str, Any] = {"program": "apps/ring.py", "ranks": 2}


def plan(**keys: Any) -> list[PlannedRun]:
    return plan_runs(load_study({**RING, **keys}))


def only_run(**keys: Any) -> PlannedRun:
    (run,) = plan(**keys)
    return run


def test_every_combination_is_run_and_the_last_variable_varies_fastest():
    keys = {"args": ["--bytes", "{size}"], "sweep": {"machine": ["gige", "shmem"], "size": "1..4 *2"}}
    runs = plan(**keys)
    assert [(run.columns["machine"], run.columns["size"]) for run in runs] == [
        *(("gige", size) for size in (1, 2, 4)),
        *(("shmem", size) for size in (1, 2, 4)),
    ]
    assert runs[4].arguments["args"] == ["--bytes", "2"]
    assert len({run.key for run in runs}) == 6


def values(*names: str) -> st.SearchStrategy[list[dict[str, str]]]:
    """Some values of some names, such as {"a": "a1", "b": "b0"}, several times, each time different ones."""
    value = {name: st.integers(0, 3).map(f"{name}{{}}".format) for name in names}
    some = st.fixed_dictionaries({}, optional=value).filter(bool)
    return st.lists(some, max_size=3, unique_by=lambda each: tuple(sorted(each.items())))


@given(cases=values("a", "b", "c"), free=st.tuples(values("d"), values("e")), rows=values("f", "g"))
def test_cases_and_zip_are_one_dimension_each(cases, free, rows):
    rows = [{"f": "f", "g": "g", **row} for row in rows]
    rows = [row for index, row in enumerate(rows) if row not in rows[:index]]
    dimensions = [choices for choices in (cases, *free, rows) if choices]
    expected = [
        sorted(word for each in choices for word in each.values()) for choices in itertools.product(*dimensions)
    ]
    names = sorted({name for choices in dimensions for each in choices for name in each})
    runs = plan(
        args=[f"{{{name}}}" for name in names],
        sweep={name: [each[name] for each in choices] for choices in free for name in (choices[0] if choices else ())},
        **({"cases": cases} if cases else {}),
        **({"zip": {name: [row[name] for row in rows] for name in "fg"}} if rows else {}),
    )
    assert [run.arguments["args"] for run in runs] == expected
    assert len({tuple(run.columns.values()) for run in runs}) == len(runs)


def test_a_case_sets_what_a_sweep_may_and_other_cases_have_the_values_of_the_study():
    label, other = plan(
        args=["--rounds", 1],
        cases=[
            {
                "program": "apps/pi.py",
                "ranks": 3,
                "machine": "torus3d",
                "set": {"network.latency": "5us"},
                "label": "Pi",
            },
            {"args": ["--rounds", 2], "fail": ["rank=1@1ms"], "network.per_hop": "1us"},
        ],
    )
    assert [each.columns for each in (label, other)] == [
        {"case": "Pi", "ranks": 3, "machine": "torus3d", "repetition": 0, "seed": 0},
        {
            "case": "--rounds 2 fail=rank=1@1ms network.per_hop=1us",
            "ranks": 2,
            "machine": "gige",
            "repetition": 0,
            "seed": 0,
        },
    ]
    names = ("program", "args", "ranks", "machine", "set", "fail")
    assert [each.settings[name] for each in (label, other) for name in names] == [
        *("apps/pi.py", ["--rounds", "1"], 3, "torus3d", {"network.latency": "5us"}, []),
        *("apps/ring.py", ["--rounds", "2"], 2, "gige", {"network.per_hop": "1us"}, ["rank=1@1ms"]),
    ]


def test_one_of_several_machines_has_changes_and_a_label():
    slow = {"machine": "gige", "set": {"network.latency": "{ranks}us"}}
    runs = plan(sweep={"machine": ["gige", {**slow, "label": "GigE, slow"}, slow]})
    assert [(run.columns["machine"], run.arguments["machine"], run.arguments["set"]) for run in runs] == [
        ("gige", "gige", {}),
        ("GigE, slow", "gige", {"network.latency": "2us"}),
        ("gige network.latency={ranks}us", "gige", {"network.latency": "2us"}),
    ]
    assert "network.latency" not in runs[1].columns
    assert runs[0].key != runs[1].key == runs[2].key


@pytest.mark.parametrize(
    ("text", "values"),
    [("1..5", [1, 2, 3, 4, 5]), ("0..10 +5", [0, 5, 10]), ("4..40 *3", [4, 12, 36]), ("-2 .. 0", [-2, -1, 0])],
)
def test_a_range_is_a_list(text: str, values: list[int]):
    assert [run.columns["size"] for run in plan(args=["{size}"], sweep={"size": text})] == values


def test_repetitions_have_seeds_one_after_the_other():
    runs = plan(seed=10, repetitions=3, args=["{seed}", "{repetition}"])
    assert [run.arguments["seed"] for run in runs] == [10, 11, 12]
    assert [run.arguments["args"] for run in runs] == [["10", "0"], ["11", "1"], ["12", "2"]]
    assert [(run.columns["repetition"], run.columns["seed"]) for run in runs] == [(0, 10), (1, 11), (2, 12)]


def test_variables_named_as_options_and_as_entries_of_the_machine_are_these():
    run = only_run(
        set={"network.bandwidth": "{rate}"},
        args=["x{rate}"],
        sweep={
            "network.latency": ["7us"],
            "isolation": ["process"],
            "rate": ["1Gbps"],
            "compute": ["measured"],
            "seed": [5],
        },
    )
    assert run.arguments["set"] == {"network.latency": "7us", "network.bandwidth": "1Gbps"}
    told = {name: run.arguments[name] for name in ("isolation", "compute", "seed", "args")}
    assert told == {"isolation": "process", "compute": "measured", "seed": 5, "args": ["x1Gbps"]}


def test_every_option_reaches_the_simulator():
    run = only_run(fail=["rank=1@1ms"], ft=True, restart="on-abort,max=2", wall_limit="2min", shards=2, seed=3)
    program = run.arguments.pop("program")
    assert program.endswith("ring.py")
    assert run.arguments == {
        "kind": "script",
        "args": [],
        "ranks": 2,
        "machine": "gige",
        "set": {},
        "seed": 3,
        "shards": 2,
        "fail": ["rank=1@1ms"],
        "ft": True,
        "restart": "on-abort,max=2",
        "wall_limit": 120.0,
    }


def test_labels_stand_in_the_table_and_values_in_the_run():
    runs = plan(ranks=8, sweep={"fail": {"none": [], "one": ["rank={ranks // 2}@1ms"], "two": "rank=1@2ms"}})
    assert [run.columns["fail"] for run in runs] == ["none", "one", "two"]
    assert [run.arguments["fail"] for run in runs] == [[], ["rank=4@1ms"], ["rank=1@2ms"]]


def test_a_machine_has_the_name_that_its_description_gives_unless_it_has_a_label(tmp_path: Path):
    for file, name in (("ib.yaml", "cluster"), ("a.yaml", "twin"), ("b.yaml", "twin")):
        (tmp_path / file).write_text(f"name: {name}\nnetwork: {{latency: 1us, bandwidth: 1Gbps}}\n")
    (tmp_path / "ring.py").write_text("")

    def machines(**keys: Any) -> list[tuple[Any, Any]]:
        (tmp_path / "study.yaml").write_text(json.dumps({"program": "ring.py", "ranks": 2, **keys}))
        found = plan_runs(load_study(tmp_path / "study.yaml"))
        return [(run.columns["machine"], Path(run.arguments["machine"]).name) for run in found]

    assert machines(machine="ib.yaml") == [("cluster", "ib.yaml")]
    assert machines(sweep={"machine": ["gige", "ib.yaml"]}) == [("gige", "gige"), ("cluster", "ib.yaml")]
    assert machines(sweep={"machine": {"IB": "ib.yaml"}}) == [("IB", "ib.yaml")]
    assert machines(sweep={"machine": ["a.yaml", "b.yaml"]}) == [("a.yaml", "a.yaml"), ("b.yaml", "b.yaml")]


def test_a_list_is_put_in_among_the_arguments():
    runs = plan(args=["a", "{words}", "z"], sweep={"words": {"no": [], "some": ["b", "{ranks}"], "nothing": None}})
    assert [run.arguments["args"] for run in runs] == [["a", "z"], ["a", "b", "2", "z"], ["a", "z"]]


def test_an_entry_of_the_machine_without_a_value_is_left_as_it_is():
    runs = plan(sweep={"network.latency": {"as it is": None, "slow": "50us"}})
    assert [run.arguments["set"] for run in runs] == [{}, {"network.latency": "50us"}]


def test_conditions_choose_repetitions_and_seeds():
    study = load_study({"program": "apps/ring.py", "seed": 5, "repetitions": 4, "sweep": {"ranks": [2, 4]}})

    def chosen(*texts: str) -> list[tuple[object, object]]:
        runs = plan_runs(study, only=[Condition(text) for text in texts])
        return [(run.columns["ranks"], run.columns["seed"]) for run in runs]

    assert chosen("repetition=0") == [(2, 5), (4, 5)]
    assert chosen("seed>6", "ranks=4") == [(4, 7), (4, 8)]
    assert chosen("repetition<2", "ranks=2 or seed=6") == [(2, 5), (2, 6), (4, 6)]
    with pytest.raises(ConfigError, match="no combination of values meets the conditions"):
        chosen("seed=4")


def test_conditions_leave_combinations_out_before_anybody_looks_at_their_values():
    sweep = {"ranks": [0, 2, 4], "machine": ["gige", "shmem"]}
    with pytest.raises(ConfigError, match=r"sweep\.ranks: expected an integer from 1 to 2147483647, got 0"):
        plan_runs(load_study({"program": "apps/ring.py", "sweep": sweep}))
    study = load_study({"program": "apps/ring.py", "sweep": sweep, "only": ["ranks>0"]})
    runs = plan_runs(study, only=[Condition("ranks=2 or machine=gige")])
    assert [(run.columns["ranks"], run.columns["machine"]) for run in runs] == [(2, "gige"), (2, "shmem"), (4, "gige")]
    with pytest.raises(ConfigError, match="--only: 'rank<3': unknown name rank; did you mean ranks"):
        plan_runs(study, only=[Condition("rank<3")])


def test_programs_are_beside_the_study_or_come_with_xsim_py(tmp_path: Path):
    (tmp_path / "apps").mkdir()
    (tmp_path / "apps" / "ring.py").write_text("")
    (tmp_path / "s.yaml").write_text("{program: apps/ring.py, ranks: 1}")
    (tmp_path / "t.yaml").write_text("{program: apps/pi.py, ranks: 1}")
    (beside,) = plan_runs(load_study(tmp_path / "s.yaml"))
    (bundled,) = plan_runs(load_study(tmp_path / "t.yaml"))
    assert beside.arguments["program"] == str(tmp_path / "apps" / "ring.py")
    assert "Monte Carlo" in Path(bundled.arguments["program"]).read_text()


def test_modules_and_text_are_programs_too():
    assert only_run(program="this.module", kind="module").arguments["program"] == "this.module"
    assert only_run(program="print({{}})", kind="code").arguments["program"] == "print({})"


# ------------------------------------------------------------------------------------------------- fingerprints


@pytest.mark.parametrize(
    "change",
    [
        {"ranks": 3},
        {"machine": "shmem"},
        {"set": {"network.latency": "9us"}},
        {"args": ["--bytes", "9"]},
        {"seed": 1},
        {"shards": 2},
        {"isolation": "process"},
        {"compute": "none"},
        {"fail": ["rank=1@1ms"]},
        {"ft": True},
        {"restart": "on-abort"},
        {"program": "apps/pi.py"},
        {"run_in": "study"},
        {"capture": {"a": "(b)"}},
    ],
)
def test_whatever_changes_the_result_changes_the_fingerprint(change: dict[str, Any]):
    assert only_run(**change).key != only_run().key


@pytest.mark.parametrize(
    "change",
    [
        {"name": "another"},
        {"description": "Of something."},
        {"wall_limit": "1h"},
        {"set": {"network.bandwidth": "1000Mbps"}},
        {"sweep": {"machine": ["gige"]}},
        {"table": "events"},
        {"repetitions": 1},
    ],
)
def test_what_does_not_change_the_result_does_not_change_the_fingerprint(change: dict[str, Any]):
    assert only_run(**change).key == only_run().key


def test_a_trace_of_failures_beside_the_study_is_found_and_its_text_counts(tmp_path: Path):
    (tmp_path / "p.py").write_text("")
    (tmp_path / "s.yaml").write_text("{program: p.py, ranks: 2, fail: ['trace={folder}/t.csv']}")
    keys = set()
    for time in ("1ms", "2ms"):
        (tmp_path / "t.csv").write_text(f"time,rank\n{time},1\n")
        (run,) = plan_runs(load_study(tmp_path / "s.yaml"))
        assert run.arguments["fail"] == [f"trace={tmp_path}/t.csv"]
        keys.add(run.key)
    assert len(keys) == 2


def test_the_text_of_the_program_and_of_its_files_counts_and_not_where_they_are(tmp_path: Path):
    keys = []
    for name, program, parameters in (("a", "1", "x"), ("b", "1", "x"), ("c", "2", "x"), ("d", "1", "y")):
        folder = tmp_path / name
        folder.mkdir()
        (folder / "p.py").write_text(program)
        (folder / "p.in").write_text(parameters)
        (folder / "s.yaml").write_text('{program: p.py, ranks: 1, args: ["--in={folder}/p.in"]}')
        (run,) = plan_runs(load_study(folder / "s.yaml"))
        assert run.arguments["args"] == [f"--in={folder}/p.in"]
        assert run.settings["args"] == ["--in={folder}/p.in"]
        keys.append(run.key)
    assert keys[0] == keys[1]
    assert len(set(keys)) == 3
