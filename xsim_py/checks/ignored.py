"""Comments of a program that suppress classes of findings on their lines."""

from __future__ import annotations

import linecache
import os
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from xsim_py.findings import Finding

_COMMENT = re.compile(r"#\s*xsim:\s*ignore\[([\w\s,]*)\]")


def is_ignored(finding: Finding, start: str) -> bool:
    """Return True if a comment ``# xsim: ignore[CLASS, ...]`` suppresses a finding at its line.

    File names are relative to the directory `start`.
    """
    path = os.path.join(start, finding.file)
    linecache.checkcache(path)
    comments = _COMMENT.findall(linecache.getline(path, finding.line))
    return finding.category in {word.strip() for words in comments for word in words.split(",")}
