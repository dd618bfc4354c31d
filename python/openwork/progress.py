"""Long work in the C++ core, shown by tqdm where it is installed and by nothing where it is not."""

import contextlib
import os
from typing import Any

_bars: dict[str, Any] = {}


def _make_bar(name: str, unit: str, total: int) -> Any:
    try:
        from tqdm.auto import tqdm
    except ImportError:
        return None
    return tqdm(desc=name, total=total or None, unit=unit.strip() or "it", leave=False, delay=0.5)


def show(name: str, unit: str, detail: str, done: int, total: int, finished: bool) -> None:
    """Called by the core, at most twenty times a second for each piece of work, and once when it has ended."""
    if os.environ.get("OPENWORK_PROGRESS") == "0":
        return
    if finished:
        bar = _bars.pop(name, None)
        if bar is not None:
            with contextlib.suppress(OSError, ValueError):
                bar.close()
        return
    try:
        if name not in _bars:
            _bars[name] = _make_bar(name, unit, total)
        bar = _bars[name]
        if bar is not None:
            bar.n = done
            bar.set_postfix_str(detail, refresh=False)
            bar.refresh()
    except (OSError, ValueError):  # standard error is closed: the work goes on without a bar
        _bars[name] = None
