"""Graphs in files: GraphML, and lists of edges.

networkx reads GraphML. It treats edges without ends as edges of a vertex called None, so these are detected first and
reported with their locations. Edge lists are parsed here, line by line. Links may have a bandwidth and a latency, and
may be parallel; the two directions of a directed graph are one link.
"""

from __future__ import annotations

import ast
from collections.abc import Mapping
from dataclasses import dataclass, field
from fractions import Fraction
from io import BytesIO
from pathlib import Path
from sys import intern
from typing import Final, NamedTuple
from xml.parsers import expat

from xsim_py.config.entries import Location, Problem, line_and_column, raise_all
from xsim_py.input_files import MIB, read_input
from xsim_py.units import parse_bandwidth, parse_cost_ps

_MOST_BYTES: Final = 16 * MIB  # half a million links
_MOST_PARALLEL: Final = 2**16
_NO_GRAPH: Final = "not a valid graph"
_LOOP: Final = "a link cannot connect {} to itself; drop it"


class GraphEdge(NamedTuple):
    """A link between two vertices; None stands for the value in the machine description."""

    a: str
    b: str
    ps_per_byte: Fraction | None = None
    latency_ps: int | None = None


@dataclass
class GraphFile:
    """The contents of a graph file: vertices by name, and links, with their lines."""

    file: Path
    vertices: dict[str, int] = field(default_factory=dict)
    """The line of each declared vertex; an edge list declares none."""
    edges: list[GraphEdge] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)

    def refuse(self, line: int, column: int, message: str) -> None:
        """Record a problem."""
        self.problems.append(Problem(Location.in_file(self.file, line, column), "", message))

    def link(self, a: str, b: str, attributes: Mapping[str, object], line: int, column: int) -> None:
        """Add a link, or several parallel ones, with attributes: bandwidth, latency, parallel."""
        try:
            figures = edge_parameters(attributes)
            many = int(str(attributes.get("parallel", 1)))
            if not 0 < many <= _MOST_PARALLEL:
                raise ValueError(f"expected a number of parallel links from 1 to {_MOST_PARALLEL}, got {many}")
        except ValueError as error:
            self.refuse(line, column, f"the link of {a} and {b}: {error}")
        else:
            self.edges += [GraphEdge(a, b, *figures)] * many


def edge_parameters(attributes: Mapping[str, object]) -> tuple[Fraction | None, int | None]:
    """Return a link's picoseconds per byte and latency, None for missing attributes.

    Raises a `ValueError` if an attribute cannot be parsed.
    """
    bandwidth, latency = attributes.get("bandwidth"), attributes.get("latency")
    return (
        None if bandwidth is None else parse_bandwidth(bandwidth),
        None if latency is None else parse_cost_ps(latency),
    )


def read_graph(file: Path) -> GraphFile:
    """Return the graph in a file; GraphML if its name ends in .graphml or .xml.

    Raises an `OSError` if it cannot be read or is too large, and a `ConfigError` with the location of each problem if
    it is not a valid graph.
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
    """Read one edge per line: two names, and optional attributes in braces; # begins a comment."""
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        graph.refuse(*line_and_column(content, error.start), f"{_NO_GRAPH}: invalid UTF-8")
        return
    for number, line in enumerate(text.split("\n"), 1):
        words = line.partition("#")[0].split(maxsplit=2)
        if not words:
            continue
        rest = words[2].strip() if len(words) > 2 else "{}"
        if len(words) < 2:
            graph.refuse(number, 1, f"{_NO_GRAPH}: expected two names, got only {words[0]}")
        elif not (rest.startswith("{") and rest.endswith("}")):
            graph.refuse(number, 1, f"{_NO_GRAPH}: expected the end of the line after two names, got {rest}")
        elif words[0] == words[1]:
            graph.refuse(number, 1, _LOOP.format(words[0]))
        else:
            graph.link(intern(words[0]), intern(words[1]), _attributes(graph, rest, number), number, 1)


def _attributes(graph: GraphFile, text: str, line: int) -> dict[str, object]:
    """Return the attributes in braces after an edge, as networkx writes them.

    Unknown ones are kept.
    """
    try:
        attributes = ast.literal_eval(text)
    except (ValueError, SyntaxError):
        if "bandwidth" in text or "latency" in text or "parallel" in text:
            graph.refuse(line, 1, f"{_NO_GRAPH}: write attributes such as {{'bandwidth': '10Gbps'}}, not {text}")
        return {}
    return attributes if isinstance(attributes, dict) else {}


class _Edge(NamedTuple):
    source: str | None
    target: str | None
    line: int
    column: int


class _GraphML:
    """A parser from GraphML to a graph."""

    def __init__(self, graph: GraphFile) -> None:
        self.graph = graph
        self.graphs = 0
        self.edges: list[_Edge] = []
        self.parser = expat.ParserCreate(namespace_separator=" ")
        self.parser.StartElementHandler = self.start
        self.parser.EntityDeclHandler = self.entity

    def read(self, content: bytes) -> None:
        try:
            self.parser.Parse(content, True)
        except expat.ExpatError as error:
            message = expat.ErrorString(error.code)
            self.graph.refuse(error.lineno, error.offset + 1, f"{_NO_GRAPH}: not XML: {message}")
            return
        except (LookupError, ValueError) as error:  # an encoding that Python does not have, or expat cannot use
            self.graph.refuse(1, 1, f"{_NO_GRAPH}: {error}")
            return
        if not self.graphs:
            self.graph.refuse(1, 1, f"{_NO_GRAPH}: it has no <graph>")
        for edge in self.edges:
            self.connect(edge)
        if not self.graph.problems:
            self.read_by_networkx(content)

    def read_by_networkx(self, content: bytes) -> None:
        """Parse a document without known errors by networkx."""
        import networkx  # not at the top: importing networkx takes longer than all other imports together

        try:
            drawn = networkx.read_graphml(BytesIO(content))
        except (LookupError, TypeError, ValueError, SyntaxError, networkx.NetworkXException) as error:
            self.graph.refuse(1, 1, f"{_NO_GRAPH}: networkx cannot read {error} ({type(error).__name__})")
            return
        links_by_ends: dict[tuple[str, str], list[dict[str, object]]] = {}
        for a, b, attributes in drawn.edges(data=True):
            links_by_ends.setdefault((str(a), str(b)), []).append(attributes)
        for (a, b), links in links_by_ends.items():
            back = links_by_ends.get((b, a), [])
            if len(links) > len(back) or (len(links) == len(back) and a <= b):
                for attributes in links:
                    self.graph.link(a, b, attributes, self.graph.vertices[a], 1)

    def connect(self, edge: _Edge) -> None:
        """Check the ends of an edge.

        Declarations may come after the edges that use them, so this is the last step.
        """
        for name, end in ((edge.source, "source"), (edge.target, "target")):
            if name is None:
                self.graph.refuse(edge.line, edge.column, f"missing attribute {end} of an edge")
            elif name not in self.graph.vertices:
                self.graph.refuse(edge.line, edge.column, f"the {end} of this edge, {name}, is not a node of the graph")
        if edge.source is not None and edge.source == edge.target:
            self.graph.refuse(edge.line, edge.column, _LOOP.format(edge.source))

    def entity(self, *_: object) -> None:
        self.refuse("XML entities are not supported")

    def refuse(self, message: str) -> None:
        self.graph.refuse(self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1, message)

    def start(self, element: str, attributes: dict[str, str]) -> None:
        name = element.rpartition(" ")[2]
        if name == "graph":
            self.graphs += 1
            if self.graphs > 1:
                self.refuse("a second <graph>; a machine is one graph")
        elif name == "node":
            self.node(attributes.get("id", ""))
        elif name == "edge":
            line, column = self.parser.CurrentLineNumber, self.parser.CurrentColumnNumber + 1
            self.edges.append(_Edge(attributes.get("source"), attributes.get("target"), line, column))
        elif name == "hyperedge":
            self.refuse("<hyperedge> is not supported: a link joins two vertices")

    def node(self, name: str) -> None:
        vertices = self.graph.vertices
        if not name:
            self.refuse("missing attribute id of a node")
        elif name in vertices:
            self.refuse(f"duplicate node {name}, first in line {vertices[name]}")
        else:
            vertices[intern(name)] = self.parser.CurrentLineNumber
