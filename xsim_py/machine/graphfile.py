"""Graphs in files: GraphML, and lists of edges.

networkx reads GraphML. It takes edges without ends for edges of a vertex called None, and links that are named twice
for one, so these are looked for first, and shown with their places. A list of edges is read here, line by line.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from io import BytesIO
from pathlib import Path
from sys import intern
from typing import Final, NamedTuple
from xml.parsers import expat

from xsim_py.config.entries import Location, Problem, line_and_column, raise_all
from xsim_py.input_files import MIB, read_input

_MOST_BYTES: Final = 16 * MIB  # half a million links
_NO_GRAPH: Final = "this cannot be read as a graph"


@dataclass
class GraphFile:
    """A graph as a file gives it: vertices by name, and links, each with the line where it stands."""

    file: Path
    vertices: dict[str, int] = field(default_factory=dict)
    """The line of each that is declared; a list of edges declares none."""
    edges: list[tuple[str, str]] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    _lines: dict[tuple[str, str], int] = field(default_factory=dict)

    def refuse(self, line: int, column: int, message: str) -> None:
        """Note what is wrong."""
        self.problems.append(Problem(Location.in_file(self.file, line, column), "", message))

    def link(self, a: str, b: str, line: int, column: int, *, one_way: bool = False) -> None:
        """Add a link; one that is there already, unless it leads the other way, is refused."""
        key = (a, b) if one_way or a <= b else (b, a)
        if key in self._lines:
            self.refuse(line, column, repeated(a, b, f"line {self._lines[key]}"))
        else:
            self._lines[key] = line
            self.edges.append((a, b))


def repeated(a: str, b: str, first: str) -> str:
    """Return what is wrong with a link that has been named before."""
    return f"there is a link of {a} and {b} already, in {first}; links side by side cannot be simulated: name it once"


def read_graph(file: Path) -> GraphFile:
    """Return the graph in a file; GraphML where its name ends in .graphml or .xml.

    Raises
    ------
    OSError
        It cannot be read, or is too large.
    ConfigError
        It is no graph; with the place of each problem.
    """
    content = read_input(file, most_bytes=_MOST_BYTES)
    graph = GraphFile(file)
    if file.suffix.lower() in (".graphml", ".xml"):
        _GraphML(graph).read(content)
    else:
        _read_edges(graph, content)
    raise_all(graph.problems)
    return graph


def _read_edges(graph: GraphFile, content: bytes) -> None:
    """Read an edge on each line: two names, and perhaps attributes in braces; # begins a comment."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        graph.refuse(*line_and_column(content, error.start), f"{_NO_GRAPH}: this byte is not UTF-8 text")
        return
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].split(maxsplit=2)
        if not words:
            continue
        rest = words[2].strip() if len(words) > 2 else "{}"
        if len(words) < 2:
            graph.refuse(number, 1, f"{_NO_GRAPH}: an edge has two names, and here is only {words[0]}")
        elif not (rest.startswith("{") and rest.endswith("}")):
            graph.refuse(number, 1, f"{_NO_GRAPH}: an edge has two names, and after these comes {rest}")
        else:
            graph.link(intern(words[0]), intern(words[1]), number, 1)


class _Edge(NamedTuple):
    source: str | None
    target: str | None
    line: int
    column: int
    one_way: bool


class _GraphML:
    """GraphML on its way to a graph."""

    def __init__(self, graph: GraphFile) -> None:
        self.graph = graph
        self.graphs = 0
        self.one_way = False
        self.edges: list[_Edge] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self.start
        self.parser.EntityDeclHandler = self.entity

    def read(self, content: bytes) -> None:
        try:
            self.parser.Parse(content, True)
        except expat.ExpatError as error:
            said = expat.ErrorString(error.code)
            self.graph.refuse(error.lineno, error.offset + 1, f"{_NO_GRAPH}: not XML: {said}")
            return
        except (LookupError, ValueError) as error:  # an encoding that Python does not have, or expat cannot use
            self.graph.refuse(1, 1, f"{_NO_GRAPH}: {error}")
            return
        if not self.graphs:
            self.graph.refuse(1, 1, f"{_NO_GRAPH}: there is no <graph> in it")
        for edge in self.edges:
            self.connect(edge)
        if not self.graph.problems:
            self.read_whole(content)

    def read_whole(self, content: bytes) -> None:
        """Have networkx read what nothing has been found wrong with."""
        import networkx  # here and not above: it takes longer to import than everything else together

        try:
            drawn = networkx.read_graphml(BytesIO(content))
        except (LookupError, TypeError, ValueError, SyntaxError, networkx.NetworkXException) as error:
            self.graph.refuse(1, 1, f"{_NO_GRAPH}: networkx stops at {error} ({type(error).__name__})")
            return
        self.graph.edges = [(str(a), str(b)) for a, b in drawn.edges()]

    def connect(self, edge: _Edge) -> None:
        """Declarations may come after the edges that need them, so this is the last step."""
        declared = True
        for name, end in ((edge.source, "source"), (edge.target, "target")):
            if name is None:
                self.graph.refuse(edge.line, edge.column, f"an edge without a {end}")
            elif name not in self.graph.vertices:
                self.graph.refuse(edge.line, edge.column, f"the {end} of this edge, {name}, is not among the nodes")
            declared = declared and name in self.graph.vertices
        if declared and edge.source is not None and edge.target is not None:
            self.graph.link(edge.source, edge.target, edge.line, edge.column, one_way=edge.one_way)

    def entity(self, *_: object) -> None:
        self.refuse("entities are not read")

    def refuse(self, message: str) -> None:
        self.graph.refuse(self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1, message)

    def start(self, element: str, told: dict[str, str]) -> None:
        name = element.rpartition(" ")[2]
        if name == "graph":
            self.graphs += 1
            self.one_way = told.get("edgedefault") == "directed"
            if self.graphs > 1:
                self.refuse("there is another <graph> before this one; a machine is one graph")
        elif name == "node":
            self.node(told.get("id", ""))
        elif name == "edge":
            line, column = self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1
            default = "true" if self.one_way else "false"
            one_way = told.get("directed", default) == "true"
            self.edges.append(_Edge(told.get("source"), told.get("target"), line, column, one_way))
        elif name == "hyperedge":
            self.refuse("a link joins two vertices, and a <hyperedge> more")

    def node(self, name: str) -> None:
        vertices = self.graph.vertices
        if not name:
            self.refuse("a node without an id")
        elif name in vertices:
            self.refuse(f"the node {name} is there already, in line {vertices[name]}")
        else:
            vertices[intern(name)] = self.parser.CurrentLineNumber
