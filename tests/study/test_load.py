"""What is wrong with a study is found before anything runs, with its place, all at once."""

from itertools import pairwise
from pathlib import Path

import jsonschema
import pytest
import yaml

from xsim_py.errors import ConfigError
from xsim_py.study import load_study, plan_runs
from xsim_py.study.loader import json_schema, presets

GOOD = """\
name: good
program: apps/ring.py
args: [--bytes, "{size}"]
machine: gige
sweep:
  ranks: [2, 4]
  size: [1, 1024]
capture: {time_us: "time: ([0-9.]+) us"}
plots:
  - {file: a.png, x: ranks, y: time_us}
"""


def complaints(tmp_path: Path, text: str) -> list[str]:
    """Return what is said of a study, without its file's name."""
    file = tmp_path / "s.yaml"
    file.write_text(text)
    with pytest.raises(ConfigError) as caught:
        plan_runs(load_study(file))
    return [line.removeprefix(f"{file}:") for line in str(caught.value).splitlines()]


def test_a_good_study_is_good(tmp_path):
    (tmp_path / "s.yaml").write_text(GOOD)
    assert len(plan_runs(load_study(tmp_path / "s.yaml"))) == 4


@pytest.mark.parametrize(
    ("old", "new", "complaint"),
    [
        ("name: good", 'name: "a\\0b"', "1:7: name: NUL character in 'a\\x00b'"),
        ("machine: gige", 'machine: "a\\0b"', "4:10: machine: NUL character in 'a\\x00b'"),
        ("[--bytes,", '["a\\0{size}",', "3:8: args[0]: NUL character in 'a\\x00{size}'"),
        ("  size: [1", '  size: ["a\\0", 1', "7:10: sweep.size: NUL character in 'a\\x00'"),
        ("  size: [1", "  size: ['1', 1", "7:15: sweep.size: duplicate value 1"),
        ("  size: [1, 1024]", f"  size: 1..{'9' * 101}", "7:9: sweep.size: number too large in '1..999"),
        ("[--bytes,", "{a: 1} #", "3:7: args: expected a list, got a section"),
        (
            "machine: gige",
            "machine: gige\nshards: 65",
            "5:9: shards: 65 is out of range for 2 ranks in one process (at most 64)",
        ),
        ("machine: gige", "machine: gige\nisolation: threads", "5:12: isolation: expected greenlets, process, spawn"),
        (
            "machine: gige",
            "machine: [gige]",
            "4:10: machine: expected text, got a list; to vary it, put it under sweep",
        ),
        ("sweep:\n  ranks: [2", "isolation: process\nsweep:\n  ranks: [5000", "isolation: 5,000 processes are more"),
        ("  ranks: [2", "  ranks: [100000000", "6:10: sweep.ranks: 100,000,000 is out of range (at most 16,777,216)"),
        ("apps/ring.py", ".", "2:10: program: "),
        ("apps/ring.py", ".", "expected a file or a directory with a __main__.py"),
        ("apps/ring.py", "/dev/zero", "expected a file or a directory with a __main__.py, got /dev/zero"),
        ("apps/ring.py", "p" * 300, "2:10: program: cannot find ppp"),
        (
            "machine: gige",
            "published: {file: /dev/zero}",
            "4:19: published.file: /dev/zero: too large (at most 16 MiB)",
        ),
        ("time: ([0-9.]+)", "(" * 5000, "8:20: capture.time_us: invalid regular expression '((((("),
        ("time: ([0-9.]+)", "(" * 20000, "is too long (at most 10,000 characters)"),
        (
            "time: ([0-9.]+)",
            "(x{9999999999})",
            "invalid regular expression '(x{9999999999}) us': the repetition number is too large",
        ),
        ("file: a.png", f"file: {'a' * 201}.png", "10:12: plots[0].file: the name is too long (at most 200 bytes)"),
        ("  size: [1, 1024]", "  size: 1..1000\n  seed: 1..1000", "6:3: sweep: 2,000,000 runs are too many"),
        ("name: good", "nam: good", "1:1: nam: unknown key; did you mean name?"),
        ("name: good", "name: ../good", "1:7: name: '../good' cannot be part of a directory name"),
        ("name: good", "name: /good", "1:7: name: '/good' cannot be part of a directory name"),
        ("  size: [1", "  sise: [1", "3:17: args[1]: unknown variable size; did you mean sise?"),
        ("  size: [1", "  depth: [1, 2]\n  size: [1", "7:10: sweep.depth: neither an option of a run nor used"),
        ("  size: [1", "  network.latncy: [1us]\n  size: [1", "7:19: sweep.network.latncy: unknown key of a"),
        ("  size: [1", "  network.latency: [1kg]\n  size: [1", "7:20: sweep.network.latency: unknown unit in '1kg'"),
        ("  ranks: [2", "  ranks: [0", "6:11: sweep.ranks: expected an integer from 1 to 2147483647, got 0"),
        ("  ranks: [2", "  ranks: [2, 2", "6:14: sweep.ranks: duplicate value 2"),
        ("  ranks: [2, 4]", "  ranks: 8..2", "6:10: sweep.ranks: expected a growing range, got '8..2'"),
        ("  ranks: [2, 4]", "  ranks: few", "6:10: sweep.ranks: expected a list or a range, got 'few'"),
        ("  ranks: [2, 4]", "  ranks: []", "6:10: sweep.ranks: no values; write"),
        ("  ranks: [2, 4]", "  ranks: [[2], 4]", "6:11: sweep.ranks: a list, or nothing, needs a label"),
        ("  ranks: [2, 4]\n", "", "1:1: ranks: missing key; give it here or in sweep"),
        ("  size:", "  virtual_time_s: [1]\n  size:", "7:19: sweep.virtual_time_s: the results have a column of this"),
        ("  size:", "  1st: [1]\n  size:", "7:3: sweep.1st: expected a name of letters, digits, _"),
        ("machine: gige", "machine: gyge", "4:10: machine: unknown preset machine 'gyge': did you mean gige?"),
        ("machine: gige", "machine: no.yaml", "cannot read the machine description"),
        ("machine: gige", "machine: gige\nset: {machine.nodes: 3}", "too few for 4 ranks"),
        ("machine: gige", "machine: gige\nranks: 3", "7:10: sweep.ranks: cannot be combined with ranks; drop one"),
        ("machine: gige", "machine: gige\nset: {network.latncy: 1us}", "5:23: set.network.latncy: unknown key of a"),
        ("machine: gige", "machine: gige\nfail: ['rank=9@1ms']", "5:7: fail: --fail rank=9@1ms: "),
        ("machine: gige", "machine: gige\nrestart: always", "5:10: restart: expected on-abort, got 'always'"),
        ("machine: gige", "machine: gige\nrestart: ''", "5:10: restart: expected on-abort, got ''; write"),
        ("  size:", "  restart: {again: on-abort, no: ''}\n  size:", "7:12: sweep.restart: expected on-abort, got ''"),
        (
            "machine: gige",
            "machine: gige\nrestart: on-abort\nisolation: spawn",
            "5:10: restart: cannot be combined with isolation spawn",
        ),
        ("machine: gige", "machine: gige\nonly: [rank<=2]", "5:8: only[0]: 'rank<=2': unknown name rank; did you"),
        ("machine: gige", "machine: gige\nonly: [ranks<=1]", "1:1: no combination of values meets the conditions"),
        ("machine: gige", "machine: gige\nonly: [few]", "5:8: only[0]: expected a condition, got 'few'"),
        ("machine: gige", "machine: gige\nrepetitions: 0", "5:14: repetitions: expected an integer from 1"),
        ("machine: gige", "machine: gige\ntable: size", "5:8: table: unknown mean size"),
        ("machine: gige", "machine: gige\nwall_limit: 3kg", "5:13: wall_limit: unknown unit in '3kg'"),
        ("apps/ring.py", "apps/rung.py", "2:10: program: cannot find apps/rung.py in "),
        ("apps/ring.py", "apps/rung.py", "did you mean apps/ring.py?"),
        ("([0-9.]+)", "[0-9.]+", "8:20: capture.time_us: 'time: [0-9.]+ us' has 0 groups"),
        ("([0-9.]+)", "([0-9.]+", "invalid regular expression"),
        ("capture: {time_us", "capture: {digest", "8:19: capture.digest: the results have a column of this name"),
        ("file: a.png", "file: b/a.png", "10:12: plots[0].file: expected the name of a .png or .svg"),
        ("file: a.png", "file: a.exe", "10:12: plots[0].file: expected the name of a"),
        ("x: ranks", "x: rank", "10:22: plots[0].x: the column 'rank' does not exist; did you mean ranks?"),
        ("y: time_us", "y: time", "10:32: plots[0].y: the column 'time' does not exist; did you mean time_us?"),
        ("y: time_us", "y: digest", "10:32: plots[0].y: the column 'digest' is not numeric"),
        ("y: time_us", "y: time_us, series: [siz]", "10:49: plots[0].series: the column 'siz' does not exist; did"),
        ("y: time_us", "y: time_us, series: []", "10:49: plots[0].series: points with different size would overlap"),
        ("x: ranks", "x: messages", "10:5: plots[0].series: messages is measured; add series"),
        ("y: time_us", "y: time_us, x_scale: log3", "10:50: plots[0].x_scale: unknown value 'log3'"),
        ("y: time_us}", "y: time_us}\n  - {file: a.png, x: ranks, y: time_us}", "a second plot with the same file;"),
        ('"{size}"', '"{size"', "3:17: args[1]: '{size': a { without its }"),
        (
            "  ranks: [2, 4]",
            "  machine: [gige, {machine: gige, label: gige}]",
            "6:19: sweep.machine[1]: duplicate value",
        ),
        (
            "  ranks: [2, 4]",
            "  machine: [{machine: gige, st: {}}]",
            "6:29: sweep.machine[0].st: unknown key; did you mean",
        ),
        ("  ranks: [2, 4]", "  machine: [{label: a}]", "6:13: sweep.machine[0]: no values; write a section such as"),
        ("  ranks: [2, 4]", "  machine: [{set: {network.latency: 1us}}]", "sweep.machine[0]: missing key: machine"),
        (
            "  ranks: [2, 4]",
            "  machine: [{machine: gige, set: {network.latncy: 1us}}]",
            "6:51: sweep.machine[0].set.network.latncy: unknown key of a machine; did you mean network.latency?",
        ),
        (
            "  ranks: [2, 4]",
            "  machine: [{machine: gige, set: {name: a}}]",
            "6:41: sweep.machine[0].set.name: expected a key such as network.latency",
        ),
        (
            "machine: gige",
            "cases: [{fail: []}, {arg: []}]",
            "4:27: cases[1].arg: neither an option of a run nor used in",
        ),
        ("machine: gige", "cases: [{seed: 1}, {seed: a}]", "4:27: cases[1].seed: expected an integer"),
        (
            "machine: gige",
            "cases: [{seed: 1}, {seed: '1'}]",
            "4:20: cases[1]: duplicate 'seed=1', as in cases[0]; give it",
        ),
        ("machine: gige", "cases: [{seed: 1}, {size: 1}]", "7:9: sweep.size: cannot be combined with cases[1].size;"),
        ("machine: gige", "cases: [{ft: true}, {fail: {a: b}}]", "4:28: cases[1].fail: expected text, a number"),
        ("machine: gige", "cases: [{ft: true, label: a}, a]", "4:31: cases[1]: expected a section; write a section"),
        ("machine: gige", "cases: [{label: a}]", "4:9: cases[0]: no values; write a section"),
        ("machine: gige", "cases: []", "4:8: cases: expected a list of cases such as"),
        (
            "sweep:\n  ranks: [2, 4]",
            "zip: {ranks: 2..4, seed: [1, 2]}\nsweep:",
            "zip.seed: expected 3 values, as in zip.ranks, got 2",
        ),
        ("machine: gige", "zip: {seed: [1, 1], ft: [true, true]}", "4:6: zip: values [0] and [1] are equal (1, true)"),
        ("machine: gige", "zip: {size: [1, 2]}", "4:13: zip.size: cannot be combined with sweep.size; drop one"),
        ("machine: gige", "zip: {args: [1, 2]}", "4:13: zip.args: cannot be combined with args; drop one"),
        ("sweep:\n  ranks: [2, 4]", "cases: [{ranks: 2}, {seed: 1}]\nsweep:", "cases[1].ranks: missing key"),
        ('"{size}"', '"{size + machine}"', "args: {size + machine} counts with machine, which is 'gige' and no number"),
    ],
)
def test_each_mistake_is_said_with_its_place(tmp_path, old: str, new: str, complaint: str):
    assert old in GOOD
    said = complaints(tmp_path, GOOD.replace(old, new, 1))
    assert any(complaint in line for line in said), said


@pytest.mark.parametrize(
    ("sizes", "only", "complaint"),
    [
        ("{few: 1, many: 9}", "", "10:49: plots[0].x_scale: the values of size (few, many) are not numbers with units"),
        ("[1us, 1KiB]", "", "the values of size (1us, 1KiB) are not numbers with units of one kind"),
        ("[0, 1]", "", "10:49: plots[0].x_scale: a logarithmic axis cannot show 0 of size"),
        ("[0, 1, 2]", ", only: [size!=0]", ""),
        ("[1KiB, 1MiB]", "", ""),
    ],
)
def test_a_logarithmic_axis_needs_numbers_above_zero(tmp_path, sizes: str, only: str, complaint: str):
    text = GOOD.replace("[1, 1024]", sizes).replace("x: ranks, y: time_us", f"x: size, y: time_us, x_scale: log{only}")
    if complaint:
        assert any(complaint in line for line in complaints(tmp_path, text))
    else:
        (tmp_path / "s.yaml").write_text(text)
        assert plan_runs(load_study(tmp_path / "s.yaml"))


def test_everything_that_is_wrong_is_said_at_once(tmp_path):
    text = GOOD.replace("name:", "nam:").replace("size:", "sise:").replace("x: ranks", "x: rank")
    assert [line.split(":")[0] for line in complaints(tmp_path, text)] == ["1", "3", "7", "10"]


def test_a_key_that_cannot_be_read_does_not_make_others_wrong(tmp_path):
    said = complaints(tmp_path, GOOD.replace("  size: [1, 1024]", "  size: {}"))
    assert len(said) == 1
    assert said[0].startswith("7:9: sweep.size: no values")


def test_values_that_are_made_from_each_other_in_a_circle(tmp_path):
    text = GOOD.replace("[2, 4]", '["{size}"]').replace("[1, 1024]", '["{ranks}"]')
    assert any("is made from" in line for line in complaints(tmp_path, text))


def test_repetitions_and_a_sweep_of_seeds_do_not_go_together(tmp_path):
    text = GOOD.replace("sweep:", "repetitions: 2\nsweep:\n  seed: [1, 2]")
    assert complaints(tmp_path, text) == ["5:14: repetitions: cannot be combined with a sweep over seeds; drop one"]


def test_values_within_values_are_refused_at_once(tmp_path):
    """An alias may stand for ten others, each of which stands for ten."""
    lines = [f"  {name}: &{name} [{', '.join([before] * 10)}]" for before, name in pairwise(["x", *"abcdefgh"])]
    text = GOOD.replace("sweep:\n", "\n".join(["sweep:", *lines, ""]).replace("[", "[*").replace("*x", "x"))
    assert len(complaints(tmp_path, text)) < 200


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("no-such-study", "unknown file or preset study 'no-such-study'"),
        ("no-such-study.yaml", "unknown file or preset study"),
        ({"program": "apps/ring.py"}, "study: ranks: missing"),
    ],
)
def test_what_is_no_study_is_refused(source, complaint: str):
    with pytest.raises(ConfigError) as caught:
        load_study(source)
    assert complaint in str(caught.value)


@pytest.mark.parametrize("text", ["[1, 2]", "a: [", "- a", ""])
def test_a_file_that_holds_no_study_is_refused(tmp_path, text: str):
    assert complaints(tmp_path, text)


def test_the_schema_accepts_what_the_checker_accepts():
    validator = jsonschema.Draft202012Validator(json_schema())
    validator.check_schema(json_schema())
    together = "zip: {machine: [gige, {machine: gige, set: {network.latency: 5us}, label: slow}], seed: [1, 1]}\nsweep:"
    for text in (
        GOOD,
        GOOD.replace("sweep:", together),
        *(path.read_text(encoding="utf-8") for path in presets().values()),
    ):
        assert not list(validator.iter_errors(yaml.safe_load(text)))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("name: good", "nam: good"),
        ("[2, 4]", "[]"),
        ("[2, 4]", "8..x"),
        ("[2, 4]", "[[2], 4]"),
        ("machine: gige", "machine: gige\nrepetitions: 0"),
        ("machine: gige", "machine: gige\nset: {network.latency: {}}"),
        ("x: ranks,", ""),
        ("y: time_us", "y: time_us, x_scale: log3"),
        ("machine: gige", "cases: [{}]"),
        ("machine: gige", "cases: [{args: {a: b}}]"),
        ("sweep:", "sweep:\n  machine: [{machin: gige}]"),
    ],
)
def test_the_schema_sees_mistakes_of_form(old: str, new: str):
    validator = jsonschema.Draft202012Validator(json_schema())
    assert list(validator.iter_errors(yaml.safe_load(GOOD.replace(old, new, 1))))
