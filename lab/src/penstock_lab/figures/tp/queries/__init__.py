"""The dissertation's running examples (§1.3) with their P-CQL extensions (§4.1.1), one file each.

In a file `:window`, `:slide` (milliseconds) and `:lifespan` (microseconds) stand for numbers. A file holds as many RANK and
JOIN clauses as any figure needs, one a line; `text` keeps the first of them. So the queries can be read, and no SQL is
put together from parts.
"""

from __future__ import annotations

from importlib.resources import files

LEVELS = 3
"""Of the dissertation's queries; Figure 4.7 has up to six."""
JOINS = (2, 4, 8)
PATHS = (1, 2, 4, 8)
"""Figure 6.8: by how many runs of joins on one attribute the eight joins are made."""
POSTS = ("news", "blogs", "news2", "blogs2", "news3", "blogs3", "news4", "blogs4")
"""What the joins of the Stock Market Join query read, in order."""


def home_arrest(
    levels: int = LEVELS, window: int = 30_000, lifespan: int = 1_000_000, *, called: bool = False
) -> str:
    """Who is where he should not be, and which officer is within three miles.

    `called`: by a Python function `distance`, as the dissertation writes it, instead of arithmetic.
    """
    name = "home_arrest_called" if called else "home_arrest"
    return _numbered(_kept(_read(name), "RANK", levels), window=window, lifespan=lifespan)


def stock_aggregate(
    levels: int = LEVELS,
    window: int = 30_000,
    slide: int = 1_000,
    lifespan: int = 1_000_000,
    *,
    joined: bool = False,
    counted: bool = False,
) -> str:
    """The mean price by sector, of sectors in the news and in research; `joined`, `counted`: see these files."""
    name = f"stock_aggregate{'_counted' if counted else '_joined' if joined else ''}"
    return _numbered(_kept(_read(name), "RANK", levels), window=window, slide=slide, lifespan=lifespan)


def stock_join(
    joins: int = 2,
    levels: int = LEVELS,
    window: int = 30_000,
    lifespan: int = 1_000_000,
    *,
    paths: int = 1,
    sector: bool = False,
) -> str:
    """Stocks whose business is posted about in so many streams (`POSTS`).

    With more than one path, every second run of joins is by sector instead of subsector: 8 / paths joins a run. `sector`: all
    are, as in chapter 7.
    """
    if joins not in JOINS or paths not in PATHS:
        raise ValueError(f"{joins} joins on {paths} paths: joins are one of {JOINS}, paths of {PATHS}")
    lines = _kept(_kept(_read("stock_join"), "JOIN", joins), "RANK", levels).splitlines()
    whole = POSTS if sector else broad(paths)
    for at, line in enumerate(lines):
        if line.startswith("JOIN ") and line.split()[1] in whole:
            lines[at] = line.replace("subsector", "sector")
    return _numbered("\n".join(lines), window=window, lifespan=lifespan)


def broad(paths: int) -> tuple[str, ...]:
    """The streams of posts that are joined by sector when there are so many paths."""
    run = max(JOINS) // paths
    return tuple(name for at, name in enumerate(POSTS) if at // run % 2)


def _read(name: str) -> str:
    return (files(__package__) / f"{name}.sql").read_text(encoding="utf-8")


def _kept(text: str, word: str, number: int) -> str:
    """The text with the first so many lines that begin with a word, and without the others."""
    lines = text.splitlines()
    found = [at for at, line in enumerate(lines) if line.startswith(f"{word} ")]
    if not 0 <= number <= len(found):
        raise ValueError(f"{number} {word} clauses: there are {len(found)}")
    dropped = set(found[number:])
    return "\n".join(line for at, line in enumerate(lines) if at not in dropped)


def _numbered(text: str, **numbers: int) -> str:
    """The text with its numbers put in; a number is all that is ever put in."""
    for name, number in numbers.items():
        text = text.replace(f":{name}", f"{number:d}")
    return text
