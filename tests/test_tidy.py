"""The house habits that can be counted."""

import ast
import re
import statistics
import tomllib
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path

import grimp
import networkx as nx

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "xsim_py"
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_MEDIAN_LINES = 10
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef | ast.Module

RIDDLE = re.compile(r"(What|Whether|The same|Those|That of|Both|Of|Nothing|See)\b")
# The name that MPI gives to matched probes is the best one for messages of the transport and of a trace, too.
SHARED_NAMES = {"Message"}


def sources(*folders: str) -> list[Path]:
    return sorted(path for folder in folders for path in (ROOT / folder).rglob("*.py"))


def texts() -> Iterator[tuple[Path, str]]:
    """Every file of ours that holds text."""
    for folder in (".ci", "apps", "docs", "models", "tests", "xsim_py", "."):
        found = (ROOT / folder).glob("*") if folder == "." else (ROOT / folder).rglob("*")
        for path in found:
            if path.is_file() and path.suffix in {"", ".py", ".md", ".yaml", ".toml", ".cff", ".graphml", ".txt"}:
                yield path, path.read_text(encoding="utf-8")


def functions(path: Path) -> list[Function]:
    """Return all functions of a file, each with its lines of comment as `comments`."""
    text = path.read_text(encoding="utf-8")
    found = [node for node in ast.walk(ast.parse(text)) if isinstance(node, Function)]
    comments = [number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("#")]
    for function in found:
        function.comments = sum(function.lineno <= number <= function.end_lineno for number in comments)
    return found


def length(function: Function) -> int:
    """Lines from the def to the end, without docstring and comments: explaining more is no offence."""
    lines = function.end_lineno - function.lineno + 1 - function.comments
    first = function.body[0]
    if ast.get_docstring(function, clean=False) is not None and len(function.body) > 1:
        lines -= first.end_lineno - first.lineno + 1
    return lines


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


def test_every_file_fits_in_a_head():
    lengths = {named(path): len(path.read_text().splitlines()) for path in sources("xsim_py", "apps", "tests")}
    assert not {name: lines for name, lines in lengths.items() if lines >= MAX_FILE_LINES}


def test_every_function_fits_on_a_screen():
    long = {
        f"{named(path)}:{function.lineno} {function.name}": length(function)
        for path in sources("xsim_py", "apps", "tests")
        for function in functions(path)
        if length(function) > MAX_FUNCTION_LINES
    }
    assert not long


def test_most_functions_are_short():
    assert (
        statistics.median(length(function) for path in sources("xsim_py") for function in functions(path))
        < MAX_MEDIAN_LINES
    )


def test_no_file_knows_where_it_was_written():
    somewhere = re.compile(r"(?<![\w.$}])/(?:home|root|Users|work|tmp|opt|mnt|var)/\w")
    assert not [f"{named(path)}: {found[0]}" for path, text in texts() if (found := somewhere.search(text))]


def test_no_test_is_switched_off():
    switches = re.compile(r"\bpytest\.(?:skip|importorskip|xfail)\b|mark\.(?:skip|skipif|xfail)\b|\bassert True\b")
    here = Path(__file__)
    assert not [named(path) for path in sources("tests") if path != here and switches.search(path.read_text())]


def test_every_module_says_what_it_is_for():
    silent = [path for path in sources("xsim_py") if not ast.get_docstring(ast.parse(path.read_text(encoding="utf-8")))]
    assert not [named(path) for path in silent]


def test_docstrings_have_a_subject_and_a_verb():
    """A first line that begins with one of these words says nothing to somebody who has not read the body."""
    found = ((path, node) for path in sources("xsim_py") for node in ast.walk(ast.parse(path.read_text())))
    texts = [(named(path), ast.get_docstring(node) or "") for path, node in found if isinstance(node, Documented)]
    assert not [f"{name}: {text.splitlines()[0]}" for name, text in texts if RIDDLE.match(text)]


def test_no_two_public_classes_share_a_name():
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources("xsim_py"):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
                places[node.name].append(named(path))
    assert {name: where for name, where in places.items() if len(where) > 1 and name not in SHARED_NAMES} == {}


def test_every_floor_is_in_the_contract():
    """import-linter checks who imports whom, for the modules that the layers name: they must be all there are."""
    contracts = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]["contracts"]
    layers = next(contract["layers"] for contract in contracts if contract["id"] == "floors")
    on_floors = {name.strip(" ()") for layer in layers for name in layer.split("|")}
    there = {path.stem for path in PACKAGE.iterdir() if path.suffix == ".py" or (path / "__init__.py").exists()}
    assert there - {"__init__", "__main__"} <= on_floors


def test_no_circle_of_imports_has_more_than_four_files():
    """Imports for annotations count, too: who reads one file of a circle has to read all of it."""
    graph = nx.DiGraph()
    imports = grimp.build_graph("xsim_py")
    for module in imports.modules:
        graph.add_edges_from((module, imported) for imported in imports.find_modules_directly_imported_by(module))
    graph.remove_edges_from([("xsim_py", "xsim_py.run")])  # the lazy `xsim_py.simulate`
    circles = [sorted(circle) for circle in nx.strongly_connected_components(graph) if len(circle) > 4]
    assert not circles


def test_tests_mirror_the_package():
    folders = {path.name for path in (ROOT / "tests").iterdir() if path.is_dir() and path.name != "__pycache__"}
    mirrored = {path.name for path in PACKAGE.iterdir() if path.is_dir()}
    own = {"apps", "bench", "clients", "conformance", "docs", "fuzz", "inputs", "programs", "ulfm_programs"}
    assert folders - mirrored <= own
