"""The table of calls says what mpi4py's stub file and MPICH's prototypes say."""

import ast
import re
import sys
from pathlib import Path

from tests.mpi4py.api_table import contract
from xsim_py.mpi4py.call_table import COLLECTIVES, OPTIONAL

PROTOTYPES = Path(sys.prefix) / "include" / "mpi_proto.h"
FORMS = {"BufSpec": ("one", "part"), "BufSpecB": ("each",), "BufSpecV": ("v",), "BufSpecW": ("w",)}
IN_C = {
    "in": "const void*", "out": "void*", "count": "int", "type": "MPI_Datatype", "counts": "const int[]",
    "displacements": "const int[]", "types": "const MPI_Datatype[]", "op": "MPI_Op", "root": "int",
    "comm": "MPI_Comm", "info": "MPI_Info", "request": "MPI_Request*",
}  # fmt: skip
ROWS = list(COLLECTIVES.values())


def test_parameters_and_defaults_are_those_of_mpi4py():
    for row, form in [(each, form) for each in ROWS for form in each.forms]:
        declared = contract().classes[row.owner].methods[form].args
        names = [each.arg for each in declared.args][1:]
        assert names == [*row.parameters, *["info"] * form.endswith("_init")], form
        assert {*names[len(names) - len(declared.defaults) :]} == {*names} & {*OPTIONAL, "info"}, form


def test_blocks_of_buffers_have_the_form_that_mpi4py_declares():
    for row in (row for row in ROWS if not row.name.islower()):
        declared = {each.arg: each.annotation for each in contract().classes[row.owner].methods[row.name].args.args}
        for buffer in filter(None, (row.sent, row.received)):
            named = {node.id for node in ast.walk(declared[buffer.parameter]) if isinstance(node, ast.Name)}
            assert any(buffer.form in FORMS[name] for name in named if name in FORMS), (row.name, buffer, named)
            may_be_none = any(isinstance(node, ast.Constant) for node in ast.walk(declared[buffer.parameter]))
            assert buffer.is_of_root == may_be_none, (row.name, buffer, ast.unparse(declared[buffer.parameter]))


def test_arguments_in_c_are_those_of_its_prototypes():
    text = PROTOTYPES.read_text(encoding="utf-8")
    for row in (row for row in ROWS if not row.name.islower()):
        for name, form in zip(row.forms, ("", "I", "_init"), strict=False):
            found = re.search(rf"^int MPI_{name}\(([^()]*)\)", text, re.MULTILINE)
            assert found is not None, name
            declared = [re.sub(r"\s*\b\w+(\[])?$", r"\1", each.strip()) for each in found[1].split(",")]
            kinds = [IN_C[kind] for kind in row.c_arguments(form)]
            assert [each.replace(" *", "*").replace("MPI_Aint", "int") for each in declared] == kinds, name


def test_every_collective_of_mpi4py_has_a_row():
    classes = contract().classes
    for owner in ("Comm", "Intracomm", "Topocomm"):
        for name, method in classes[owner].methods.items():
            names = {each.arg for each in method.args.args}
            exchanges = names & {"recvbuf", "sendobj"} and not names & {"source", "dest"}
            if exchanges or {"root", "buf"} <= names:
                rows = [row for row in COLLECTIVES.values() if name in row.forms]
                assert [row.owner for row in rows] == [owner], name
