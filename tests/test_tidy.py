"""The house habits that can be counted."""

import ast
import re
import statistics
import tomllib
from bisect import bisect
from collections import defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import grimp
import networkx as nx

ROOT = Path(__file__).parent.parent
PACKAGE = ROOT / "xsim_py"
MAX_FILE_LINES = 600
MAX_FUNCTION_LINES = 70
MAX_MEDIAN_LINES = 10
MAX_PRIVATE_READS = 100
MAX_POSITIONAL = 8
MAX_ANY = 700
ARRAY_FOLDERS = "xsim_py/mpi", "xsim_py/mpi4py", "xsim_py/engine"
ARRAYS = {"array", "arrays", "block", "blocks", "buffer", "data", "fold", "given", "key", "memory", "shape"}
Function = ast.FunctionDef | ast.AsyncFunctionDef
Documented = Function | ast.ClassDef | ast.Module

RIDDLE = re.compile(r"(What|Whether|The same|Those|That of|Both|Of|Nothing|See)\b")
PUBLIC_OF_NAMED_TUPLES = {"_asdict", "_fields", "_replace"}
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


class Read(NamedTuple):
    """A file as the tests see it: what is worth keeping of its tree."""

    functions: dict[str, int]
    """The length of each, by its line and name."""
    docstrings: list[str]
    """Those of the module, of its classes and of its functions, as far as they have one."""
    classes: list[str]
    """The names of those that are not in another one."""
    says: bool
    """Whether the module has a docstring."""
    private: list[str]
    """The private attributes of other objects, by line and name."""
    positional: dict[str, int]
    """The number of positional parameters of each function, without `self`, by its line and name."""
    untyped: list[str]
    """The parameters and variables annotated as `Any`, by name; and as many `return` as functions that return it."""


@cache
def read(path: Path) -> Read:
    text = path.read_text(encoding="utf-8")
    tree = ast.parse(text)
    nodes = [*ast.walk(tree)]
    found = [node for node in nodes if isinstance(node, Documented)]
    comments = [number for number, line in enumerate(text.splitlines(), 1) if line.lstrip().startswith("#")]
    return Read(
        {f"{node.lineno} {node.name}": length(node, comments) for node in found if isinstance(node, Function)},
        [docstring for node in found if (docstring := ast.get_docstring(node))],
        [node.name for node in tree.body if isinstance(node, ast.ClassDef)],
        bool(ast.get_docstring(tree)),
        [f"{node.lineno} {node.attr}" for node in nodes if is_private_of_another(node)],
        {f"{node.lineno} {node.name}": positional(node.args) for node in found if isinstance(node, Function)},
        [
            name
            for node in nodes
            for name, annotation in annotations(node)
            if isinstance(annotation, ast.Name) and annotation.id == "Any"
        ],
    )


def annotations(node: ast.AST) -> Iterator[tuple[str, ast.expr | None]]:
    """Yield the name and the annotation of a parameter, a variable or a result."""
    if isinstance(node, ast.arg):
        yield node.arg, node.annotation
    elif isinstance(node, ast.AnnAssign):
        yield ast.unparse(node.target).rpartition(".")[2], node.annotation
    elif isinstance(node, Function):
        yield "return", node.returns


def is_private_of_another(node: ast.AST) -> bool:
    """Whether this is an attribute with one underscore of another object than self, the class and its bases."""
    if not isinstance(node, ast.Attribute) or not node.attr.startswith("_") or node.attr.startswith("__"):
        return False
    if isinstance(node.value, ast.Call) and isinstance(node.value.func, ast.Name):
        return node.value.func.id != "super" and node.attr not in PUBLIC_OF_NAMED_TUPLES
    own = isinstance(node.value, ast.Name) and node.value.id in {"self", "cls", "os", "sys"}
    return not own and node.attr not in PUBLIC_OF_NAMED_TUPLES


def positional(parameters: ast.arguments) -> int:
    names = [each.arg for each in (*parameters.posonlyargs, *parameters.args)]
    return len(names) - (names[:1] in (["self"], ["cls"]))


def length(function: Function, comments: list[int]) -> int:
    """Lines from the def to the end, without docstring and comments: explaining more is no offence."""
    start, end = (bisect(comments, line) for line in (function.lineno - 1, function.end_lineno))
    lines = function.end_lineno - function.lineno + 1 - (end - start)
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
    assert not {
        f"{named(path)}:{function}": lines
        for path in sources("xsim_py", "apps", "tests")
        for function, lines in read(path).functions.items()
        if lines > MAX_FUNCTION_LINES
    }


def test_most_functions_are_short():
    lengths = [lines for path in sources("xsim_py") for lines in read(path).functions.values()]
    assert statistics.median(lengths) < MAX_MEDIAN_LINES


def test_few_private_attributes_of_others_are_read():
    """The rest belongs to other packages, such as `threading`; see `mpi4py.inside` for the handles of MPI."""
    found = {named(path): read(path).private for path in sources("xsim_py") if read(path).private}
    assert sum(map(len, found.values())) <= MAX_PRIVATE_READS, found


def test_no_function_has_many_positional_parameters():
    """A reader of a call cannot tell more of them apart; the others are passed by keyword, or as one object."""
    assert not {
        f"{named(path)}:{function}": count
        for path in sources("xsim_py")
        for function, count in read(path).positional.items()
        if count > MAX_POSITIONAL
    }


def test_arrays_have_types():
    found = {named(path): ARRAYS.intersection(read(path).untyped) for path in sources(*ARRAY_FOLDERS)}
    assert not {name: untyped for name, untyped in found.items() if untyped}


def test_few_annotations_are_any():
    """`object` serves for a value that is only passed on, a protocol or a union for any other."""
    found = {named(path): len(read(path).untyped) for path in sources("xsim_py") if read(path).untyped}
    assert sum(found.values()) <= MAX_ANY, found


def test_no_file_knows_where_it_was_written():
    somewhere = re.compile(r"(?<![\w.$}])/(?:home|root|Users|work|tmp|opt|mnt|var)/\w")
    assert not [f"{named(path)}: {found[0]}" for path, text in texts() if (found := somewhere.search(text))]


def test_no_test_is_switched_off():
    switches = re.compile(r"\bpytest\.(?:skip|importorskip|xfail)\b|mark\.(?:skip|skipif|xfail)\b|\bassert True\b")
    here = Path(__file__)
    own = [path for path in sources("tests") if path != here and "suites" not in path.parts]  # those are run by tests
    assert not [named(path) for path in own if switches.search(path.read_text())]


def test_every_module_says_what_it_is_for():
    assert not [named(path) for path in sources("xsim_py") if not read(path).says]


def test_docstrings_have_a_subject_and_a_verb():
    """A first line that begins with one of these words says nothing to somebody who has not read the body."""
    texts = [(named(path), text) for path in sources("xsim_py") for text in read(path).docstrings]
    assert not [f"{name}: {text.splitlines()[0]}" for name, text in texts if RIDDLE.match(text)]


def test_no_two_public_classes_share_a_name():
    places: dict[str, list[str]] = defaultdict(list)
    for path in sources("xsim_py"):
        for name in read(path).classes:
            if not name.startswith("_"):
                places[name].append(named(path))
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
    own = {
        "apps",
        "bench",
        "browser",
        "clients",
        "conformance",
        "docs",
        "fuzz",
        "inputs",
        "programs",
        "style",
        "ulfm_programs",
    }
    assert folders - mirrored <= own
