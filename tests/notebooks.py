"""The notebooks of the documentation: their cells are run in order, in an empty folder with `apps/`.

Text outputs have to be equal, without what varies; figures have to show the same data, whatever their pixels.

python -m tests.notebooks --write      puts what the cells show now into the notebooks
"""

import ast
import base64
import io
import json
import sys
import tempfile
from contextlib import chdir, redirect_stdout
from pathlib import Path
from typing import Any

from tests.doc_blocks import ROOT, comparable, prepared
from xsim_py.report.shown import digest_of_png

NOTEBOOKS = sorted((ROOT / "docs" / "notebooks").glob("*.ipynb"))
_SHOWN = {"text/html": "_repr_html_", "image/png": "_repr_png_"}


def executed(notebook: Path, folder: Path) -> dict[str, Any]:
    """Return a notebook with the outputs of today."""
    whole: dict[str, Any] = json.loads(notebook.read_text(encoding="utf-8"))
    prepared(folder)
    namespace: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    with chdir(folder):
        for cell in whole["cells"]:
            if cell["cell_type"] == "code":
                number += 1
                cell["execution_count"] = number
                cell["outputs"] = _outputs("".join(cell["source"]), namespace, number)
    return whole


def _outputs(source: str, namespace: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run a cell, and return what it prints, and the value of its last line if that is an expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    printed, value = io.StringIO(), None
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), f"cell {number}", "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), f"cell {number}", "eval"), namespace)
    text = printed.getvalue()
    outputs = [{"name": "stdout", "output_type": "stream", "text": text.splitlines(keepends=True)}] if text else []
    if value is not None:
        data: dict[str, Any] = {"text/plain": repr(value).splitlines(keepends=True)}
        for kind, method in _SHOWN.items():
            shown = getattr(value, method, lambda: None)()
            if isinstance(shown, bytes):
                data[kind] = base64.b64encode(shown).decode()
            elif shown is not None:
                data[kind] = shown.splitlines(keepends=True)
        outputs.append({"data": data, "execution_count": number, "metadata": {}, "output_type": "execute_result"})
    return outputs


def told(notebook: dict[str, Any]) -> list[Any]:
    """Return what the outputs of a notebook say, without what varies from run to run."""
    found: list[Any] = []
    for cell in notebook["cells"]:
        for output in cell.get("outputs", ()):
            found.append(comparable("".join(output.get("text", ()))))
            data = output.get("data", {})
            for kind, shown in data.items():
                is_image = kind == "image/png"
                if kind == "text/plain" and "image/png" in data:
                    continue  # the size of a figure, which depends on fonts
                found.append(digest_of_png(base64.b64decode(shown)) if is_image else comparable("".join(shown)))
    return found


def main() -> None:
    """Write the outputs of today."""
    assert sys.argv[1:] == ["--write"], __doc__
    for notebook in NOTEBOOKS:
        with tempfile.TemporaryDirectory() as folder:
            whole = executed(notebook, Path(folder))
        notebook.write_text(json.dumps(whole, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
