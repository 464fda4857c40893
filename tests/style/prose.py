"""Count the phrases of `phrases` in the prose of the project: pages, docstrings, comments and messages."""

import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from pathlib import Path

from tests.style.phrases import PHRASES

ROOT = Path(__file__).parent.parent.parent
ALLOWED = Path(__file__).with_name("allowed.tsv")
EXEMPT = "style: ok"

# A comment; a string in three quotes, which is a docstring if it begins its line; any other string.
_PYTHON = re.compile(
    r'(?P<comment>#[^\n]*)|(?P<doc>(?<=\n)[ ]*(?:[rR]?)"""(?:[^\\]|\\.)*?""")'
    r'|(?P<text>[a-zA-Z]{0,2}(?:"""(?:[^\\]|\\.)*?"""|"(?:[^"\\\n]|\\.)*"|\'(?:[^\'\\\n]|\\.)*\'))',
    re.DOTALL,
)
_QUOTES = re.compile(r'^[a-zA-Z]{0,2}["\']+|["\']+$|^#|\\n')
_FIELD = re.compile(r"\{[^{}]*\}")
_FENCE = re.compile(r"^```.*?^```", re.DOTALL | re.MULTILINE)
_CODE = re.compile(r"``?[^`]*``?|(?<=\])\([^)]*\)")


def _word(source: str) -> str:
    """Return a word that each match of an expression contains; to look for it first is faster."""
    plain = re.sub(r"\((?:[^()]|\([^()]*\))*\)|\[[^]]*\]|\\.|\w\?", " ", source.removeprefix("(?-i)"))
    return "" if "|" in plain else max(re.findall(r"[a-z]+", plain), key=len, default="")


_PATTERNS = [
    (re.compile(source.removeprefix("(?-i)"), 0 if source.startswith("(?-") else re.IGNORECASE), _word(source), better)
    for source, better in PHRASES
]


def pages() -> list[Path]:
    """Return all pages of the documentation."""
    return sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])


def sources() -> list[Path]:
    """Return all files of the package."""
    return sorted((ROOT / "xsim_py").rglob("*.py"))


def hits(text: str) -> Iterator[str]:
    """Yield each phrase in a text, with its surroundings and what to write instead."""
    plain = " ".join(text.split())
    small = plain.lower()
    for pattern, word, better in _PATTERNS:
        for found in pattern.finditer(plain) if word in small else ():
            around = plain[max(0, found.start() - 40) : found.end() + 40]
            yield f"{found[0]!r} in '... {around} ...': write {better}"


@cache
def prose(path: Path) -> dict[str, str]:
    """Return the prose of a file by kind, without code, quoted output and exempt lines."""
    text = "\n".join(line for line in path.read_text(encoding="utf-8").split("\n") if EXEMPT not in line)
    if path.suffix == ".md":
        return {"page": _CODE.sub("x", _FENCE.sub("\n", text))}
    parts: dict[str, list[str]] = {"comment": [], "doc": [], "text": []}
    end = 0
    for found in _PYTHON.finditer("\n" + text):
        kind = found.lastgroup or "text"
        apart = kind == "doc" or found.string[end : found.start()].strip()
        if kind == "text" and apart and " " not in found[0]:
            continue  # a name
        parts[kind] += [" | " if apart else " ", _QUOTES.sub("", found[0])]
        end = found.end()
    kinds = {kind: "".join(those) for kind, those in parts.items()}
    return {kind: (_FIELD if kind == "text" else _CODE).sub("x", prose) for kind, prose in kinds.items()}


def counts() -> Counter[str]:
    """Return the number of hits of each file that has some, messages left aside."""
    found = Counter[str]()
    for path in [*pages(), *sources()]:
        texts = [text for kind, text in prose(path).items() if kind != "text"]
        if number := sum(1 for text in texts for _ in hits(text)):
            found[path.relative_to(ROOT).as_posix()] = number
    return found


def allowed() -> dict[str, int]:
    """Return the recorded hits of each file."""
    rows = (line.split("\t") for line in ALLOWED.read_text(encoding="utf-8").splitlines())
    return {name: int(number) for number, name in rows}


def rises(found: Counter[str]) -> dict[str, str]:
    """Return the files with more hits than recorded, with both numbers."""
    then = allowed()
    return {
        name: f"{number}, recorded {then.get(name, 0)}" for name, number in found.items() if number > then.get(name, 0)
    }


def record(found: Counter[str]) -> None:
    """Record the hits of each file."""
    lines = [f"{number}\t{name}\n" for name, number in sorted(found.items())]
    ALLOWED.write_text("".join(lines), encoding="utf-8")
