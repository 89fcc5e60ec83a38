"""``tensorcask.report``: a page that shows a file, what differs between two, or the steps of a run."""

import html
import os
import typing
from collections.abc import Iterable

from tensorcask import _native


class Report:
    """The page of ``tensorcask.report``. A notebook shows it; ``save`` writes it to a file.

    >>> import numpy as np, tensorcask as tc
    >>> _ = tc.save("a.npz", {"w": np.ones((2, 3))}, overwrite=True)
    >>> page = tc.report("a.npz")
    >>> page.save("page.html", overwrite=True)
    >>> page.html.startswith("<!DOCTYPE html>")
    True
    """

    def __init__(self, html_text: str, paths: "list[str]") -> None:
        self.html = html_text
        self._paths = paths

    def save(self, path: "str | os.PathLike[str]", *, overwrite: bool = False) -> None:
        """Writes the page. ``FileExistsError`` if there is a file and ``overwrite`` is false."""
        with open(path, "w" if overwrite else "x", encoding="utf-8") as file:
            file.write(self.html)

    def _repr_html_(self, height: int = 640) -> str:
        # A frame without the rights of the notebook: the page runs its own script, and reads and sends nothing.
        return (
            f'<iframe srcdoc="{html.escape(self.html)}" sandbox="allow-scripts allow-modals" width="100%" height="{height}" '
            'style="border: 1px solid #8888; border-radius: 6px" title="tensorcask report"></iframe>'
        )

    def __repr__(self) -> str:
        return f"<tensorcask.Report of {', '.join(self._paths)}, {len(self.html):,} characters>"


def report(
    *paths: typing.Any,
    names: "str | Iterable[str] | None" = None,
    rename: typing.Any = None,
    run: bool = False,
    singular_values: "str | Iterable[str] | None" = None,
    threads: "int | None" = None,
    **reading: typing.Any,
) -> Report:
    """A page that shows one file, what differs between two, or a run: more files, or the folder of one.

    ``names`` and ``rename`` are those of ``diff``. With ``run``, two files are steps that are not compared. Matrices
    whose names match a pattern of ``singular_values`` get these, up to 4096 rows and columns. The other arguments are
    those of ``open``.

    >>> import numpy as np, tensorcask as tc
    >>> _ = tc.save("a.npz", {"w": np.ones(3)}, overwrite=True)
    >>> _ = tc.save("b.npz", {"w": np.zeros(3)}, overwrite=True)
    >>> tc.report("a.npz", "b.npz")  # doctest: +ELLIPSIS
    <tensorcask.Report of a.npz, b.npz, ... characters>
    """
    if not paths:
        raise TypeError("report() takes at least one path")
    page = _native.report_page(list(paths), run, names, rename, singular_values, threads, **reading)
    shown = [os.fsdecode(path) if isinstance(path, (str, os.PathLike)) else type(path).__name__ for path in paths]
    return Report(page, shown)
