"""The files that come with xsim_py: machines, studies and programs, in a wheel or in a checkout."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Final

__all__ = ["bundled", "bundled_apps", "files_by_name"]

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def bundled(name: str) -> Path:
    """Return the folder ``models`` or ``apps``: that of a wheel is inside the package, with an underscore before."""
    installed = _PACKAGE / f"_{name}"
    return installed if installed.is_dir() else _PACKAGE.parent / name


def bundled_apps() -> Path:
    """Return the folder of the programs."""
    return bundled("apps")


@cache
def files_by_name(folder: Path) -> Mapping[str, Path]:
    """Return the descriptions in a folder, by their names."""
    return {path.stem: path for path in sorted(folder.glob("*.yaml"))}
