"""Runs a notebook's code cells in one process, as a notebook would: python run_notebook.py FILE.ipynb [--write].

What a cell ends with is shown, so that tables, figures and pages are made too. --write puts the outputs into the file: text,
and figures as small PNGs.
"""

import ast
import base64
import contextlib
import io
import json
import sys
from pathlib import Path


def run_cell(source, names):
    """The cell's printed text and the value of its last expression."""
    tree = ast.parse(source)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, "cell", "exec"), names)
        value = eval(compile(ast.Expression(last.value), "cell", "eval"), names) if last else None
    return printed.getvalue(), value


def show(value):
    """A notebook's output of a value."""
    data = {"text/plain": repr(value)}
    if hasattr(value, "_repr_svg_"):
        assert "<svg" in value._repr_svg_()
        with contextlib.suppress(TypeError):
            data["image/png"] = base64.b64encode(value.png(dpi=60)).decode()
    elif hasattr(value, "_repr_html_"):
        assert "<" in value._repr_html_()
    return {"output_type": "execute_result", "execution_count": None, "metadata": {}, "data": data}


def main():
    path = Path(sys.argv[1])
    notebook, names = json.loads(path.read_text()), {"__name__": "__main__"}
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        printed, value = run_cell("".join(cell["source"]), names)
        cell["outputs"] = [{"output_type": "stream", "name": "stdout", "text": printed}] if printed else []
        if value is not None:
            cell["outputs"].append(show(value))
    if "--write" in sys.argv:
        path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    main()
