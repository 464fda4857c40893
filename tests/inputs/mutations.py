"""How a good input is spoilt: by rules that know where words begin and end, and byte by byte."""

import random
import re
from itertools import pairwise

from tests.inputs.corpus import Case, good

# Numbers are either small or no possible size of anything: what is valid has to stay cheap.
NASTY = [
    *[
        "0",
        "-1",
        "1",
        "-0",
        "1.5",
        "1e400",
        "-1e400",
        "1e-400",
        "nan",
        ".nan",
        "inf",
        "-.inf",
        "1e30",
        "99999999999999999999",
        "1:30",
        "1:30:00.5",
        "1_000",
        "٣",
    ],
    *[
        "true",
        "false",
        "no",
        "null",
        "~",
        "",
        "''",
        "yes",
        "2026-01-01",
        "=",
        "<<",
        "*",
        "&a",
        "!!int x",
        "!!binary x",
        "0s",
        "-1s",
        "1e400s",
        "1e-30s",
        "1kg",
        "1s/B",
        "s",
    ],
    *[
        "1 us",
        "1e300h",
        "1e400Gbps",
        "1e-30bps",
        "0bps",
        "-1B",
        "1e400B",
        "unlimited",
        "1.5B",
        "1e30GB",
        "0.5ps",
        "a/b",
        "../../a",
        "/dev/zero",
        ".",
        "..",
    ],
    *[
        "/dev/null",
        "/",
        "-",
        "--",
        "-1x",
        "a.b.c",
        "a b",
        "é",
        "{}",
        "[]",
        "[[]]",
        "{a: 1}",
        "[1, 2]",
        "{a: {b: {c: d}}}",
        "[null]",
        "{null: 1}",
        "{[a]: b}",
    ],
    *[
        "{? : }",
        "&x [*x]",
        "&x {a: *x}",
        "*undefined",
        "!!python/object/apply:os.system [x]",
        "!!python/name:os.system",
        "!<t> x",
    ],
    *[
        "{a}",
        "{{",
        "}",
        "{1/0}",
        "{2**10**10}",
        "{ranks}",
        "{a.b}",
        "{0.1}",
        "((?:a+)+)$",
        "(x){9999999999}",
        "[",
        "(?P<a>x)",
        "(?i",
        "\\",
        "1..9999999999",
    ],
    *[
        "1..1e5",
        "9..1",
        "1..9 *1",
        "ranks<=",
        "<=3",
        "ranks=1 or",
        "a=1,2,3",
        "rank=1@",
        "rank=@1ms",
        "rank=1@1ms,rank=2@2ms",
        "trace=",
        "1th",
    ],
    *[
        "trace=/dev/zero",
        "exponential:",
        "weibull:rank,mtbf=0s,shape=0",
        "before its 0th call",
        "gige",
        "m.yaml",
        "knomial:0",
    ],
    *('""', "uniform:1e23", '"a\\0b"', '"\\ud800"', '"\\x80"', "\udcff", "\udcc3(", "\u202e", "\ufeff", "\x1b[2J"),
    *("a\tb", "a\nb", "a\rb", "a\x85b", "a" * 300, "a" * 100_000, "9" * 400, "9" * 5000, "9" * 400 + "s"),
    *("0x" + "f" * 40, "0x" + "f" * 5000, "0b" + "1" * 20000, "[" * 30 + "]" * 30, "[" * 3000 + "]" * 3000),
    *("[" * 100_000, "{a: " * 3000 + "}" * 3000, "- " * 3000, "? " * 3000, "(" * 5000, "{" + "-" * 5000 + "1}"),
    "{" + "9*" * 400 + "9}",
]
_BOMB = "\n".join(f"{b}: &{b} [{', '.join([f'*{a}'] * 9)}]" for a, b in pairwise("abcdefghi"))
_LINES = [
    *[
        "<<: *a",
        "---",
        "...",
        "%YAML 9.9",
        "%TAG ! x",
        "\t",
        "  ",
        "- a",
        "? a",
        ": a",
        "a: b: c",
        "a:",
        "'",
        "<a/>",
        "<graph/>",
        "</graph>",
        "n0 n0",
        "n0",
        "a b c d",
    ],
    *('"', "# " + "x" * 1000, "a: &a [x, x]\n" + _BOMB, "<!DOCTYPE a [<!ENTITY b 'c'>]>", "[" * 50_000, "null"),
    *('{"key": "', '{"key": "a", "outcome": {}}', '{"key": 5}', '{"key": "a", "outcome": ' + "[" * 50_000),
]
_OPTIONS = ["--nonsense", "--set", "--fail", "-n", "--json", "--", "-h"]
_WORD = re.compile(r"""[^\s,:=<>"'\[\]{}@]+""")
_BYTES = [*(bytes([each]) for each in b"\0\xff\r\t{}[]\"':-9\n"), b"\xc3\x28", b"\xef\xbb\xbf"]


def case(seed: int, number: int) -> Case:
    """The input of a number: always the same one."""
    chance = random.Random(f"{seed}:{number}")
    kinds = list(good())
    chosen = chance.choice(good()[kinds[number % len(kinds)]])
    argv, files = list(chosen.argv), dict(chosen.files)
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        if chosen.about == "command line" or (chosen.about == "failures" and chance.random() < 0.7):
            argv = _spoilt_words(chance, argv)
        else:
            name = next(iter(files)) if chance.random() < 0.9 else chance.choice(list(files))
            files[name] = _spoilt(chance, files[name], chosen)
    argv = [word.replace("\0", "") for word in argv]  # which no operating system hands on
    return Case(argv, files, f"{chosen.about} {seed}:{number}")


def _spoilt_words(chance: random.Random, argv: list[str]) -> list[str]:
    """A command line with one word changed, away, doubled, elsewhere; the command itself mostly stays."""
    argv = argv or [""]
    place = chance.randrange(1, len(argv)) if len(argv) > 1 and chance.random() < 0.95 else 0
    if "-c" in argv and place > argv.index("-c"):
        place = argv.index("-c")  # a program that is changed may do anything
    way = chance.randrange(8)
    if way < 3:
        return [*argv[:place], _text(chance), *argv[place + 1 :]]
    if way == 3:
        return [*argv[:place], _swapped(chance, argv[place]), *argv[place + 1 :]]
    if way == 4:
        return argv[:place] + argv[place + 1 :]
    if way == 5:
        return [*argv[:place], argv[place], *argv[place:]]
    if way == 6:
        return [
            *argv[:place],
            chance.choice(_OPTIONS),
            *argv[place:],
        ]
    return [*argv[:place], _text(chance) + argv[place], *argv[place + 1 :]]


def _text(chance: random.Random) -> str:
    return chance.choice([word for word in NASTY if len(word) < 100_001])


def _swapped(chance: random.Random, text: str) -> str:
    """One word of a text in place of which something nasty stands."""
    words = list(_WORD.finditer(text))
    if not words:
        return text + chance.choice(NASTY)
    word = chance.choice(words)
    return text[: word.start()] + chance.choice(NASTY) + text[word.end() :]


def _spoilt(chance: random.Random, data: bytes, chosen: Case) -> bytes:
    """The contents of a file with one thing changed."""
    text = data.decode("utf-8", "surrogateescape")
    way = chance.randrange(12)
    if way < 5:
        text = _swapped(chance, text)
    elif way < 9:
        text = _other_lines(chance, text)
    elif way == 9:
        other = chance.choice(good()[chosen.about]).files
        other_text = next(iter(other.values())).decode("utf-8", "surrogateescape")
        text = text[: chance.randrange(len(text) + 1)] + other_text[chance.randrange(len(other_text) + 1) :]
    else:
        return _other_bytes(chance, data)
    return text.encode("utf-8", "surrogateescape")


def _other_lines(chance: random.Random, text: str) -> str:
    """A line away, doubled, elsewhere, indented, or one more."""
    lines = text.splitlines(keepends=True) or [""]
    place = chance.randrange(len(lines))
    way = chance.randrange(6)
    if way == 0:
        del lines[place]
    elif way == 1:
        lines.insert(chance.randrange(len(lines) + 1), lines[place])
    elif way == 2:
        lines.insert(chance.randrange(len(lines)), lines.pop(place))
    elif way == 3:
        lines[place] = chance.choice([" ", "  ", "\t", "- "]) + lines[place]
    elif way == 4:
        lines.insert(place, chance.choice(_LINES) + "\n")
    else:
        lines[place:] = [lines[place]] * chance.choice([2, 1000])
    return "".join(lines)


def _other_bytes(chance: random.Random, data: bytes) -> bytes:
    """Bytes changed, or the end missing."""
    place = chance.randrange(len(data) + 1)
    way = chance.randrange(4)
    if way == 0:
        return data[:place]
    if way == 1:
        return bytes(chance.randrange(256) for _ in range(chance.randrange(200)))
    new = chance.choice(_BYTES) if chance.random() < 0.8 else chance.randbytes(3)
    return data[:place] + new + data[place + (way == 2) :]
