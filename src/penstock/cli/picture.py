"""Plans as pictures: Graphviz (`dot`), or SVG drawn here, for who has no Graphviz.

Operators are boxes, the answer on top; edges carry their update pattern, in its colour, with the reason as a tooltip.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any
from xml.sax.saxutils import escape

COLOURS = {"MONOTONIC": "#666666", "WEAKEST": "#2a7f3f", "WEAK": "#1f5fa8", "STRICT": "#b3261e"}
LETTER, LINE, WIDE, GAP, DEEP, MARGIN = 7, 18, 34, 24, 92, 16
"""Widths of a letter and of a box's longest line (in letters), height of a line, and distances."""

Tree = dict[str, Any]
"""As `plans.explain` makes it: title, pattern, reason, inputs."""


def dot(trees: dict[str, Tree]) -> str:
    """For Graphviz."""
    lines = ["digraph penstock {", "  rankdir=BT; node [shape=box, fontname=sans]; edge [fontname=sans];"]
    numbers = iter(range(1 << 30))

    def visit(tree: Tree) -> int:
        mine = next(numbers)
        lines.append(f"  n{mine} [label={_quoted(tree['title'])}];")
        for below in tree["inputs"]:
            edge(f"n{visit(below)}", f"n{mine}", below)
        return mine

    def edge(start: str, end: str, tree: Tree) -> None:
        colour = COLOURS[tree["pattern"]]
        label, why = _quoted(tree["pattern"]), _quoted(tree["reason"])
        lines.append(
            f'  {start} -> {end} [label={label}, tooltip={why}, color="{colour}", fontcolor="{colour}"];'
        )

    for name, tree in trees.items():
        top = visit(tree)
        lines.append(f"  q{top} [label={_quoted(name)}, shape=oval];")
        edge(f"n{top}", f"q{top}", tree)
    return "\n".join([*lines, "}"])


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


@dataclass(slots=True)
class Box:
    """A node in its place: `x` is its middle."""

    lines: list[str]
    pattern: str
    reason: str
    depth: int
    below: list[Box] = field(default_factory=list)
    x: float = 0.0

    @property
    def width(self) -> float:
        return LETTER * max(map(len, self.lines)) + 20

    @property
    def y(self) -> float:
        return MARGIN + DEEP * self.depth

    @property
    def height(self) -> float:
        return LINE * len(self.lines) + 12


def svg(trees: dict[str, Tree]) -> str:
    """Drawn here, one query beside the other."""
    boxes: list[Box] = []
    edge = float(MARGIN)
    for name, tree in trees.items():
        answer = Box([name], tree["pattern"], tree["reason"], 0)
        answer.below = [_boxes(tree, 1)]
        edge = _place(answer, edge) + GAP
        boxes += _all(answer)
    height = max((b.y + b.height for b in boxes), default=0) + MARGIN
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{edge:.0f}" height="{height:.0f}" font-family="sans-serif" font-size="12">'
    ]
    for box in boxes:
        parts += [_line(box, below) for below in box.below]
    parts += [_drawn(box) for box in boxes]
    return "\n".join([*parts, "</svg>"])


def _boxes(tree: Tree, depth: int) -> Box:
    made = Box(_broken(tree["title"]), tree["pattern"], tree["reason"], depth)
    made.below = [_boxes(one, depth + 1) for one in tree["inputs"]]
    return made


def _broken(text: str) -> list[str]:
    """A title in lines that fit a box."""
    lines = [""]
    for word in text.split(" "):
        if lines[-1] and len(lines[-1]) + len(word) >= WIDE:
            lines.append("")
        lines[-1] += f" {word}" if lines[-1] else word
    return lines


def _place(box: Box, left: float) -> float:
    """Put a box over what lies below it, from `left` on; returns where it ends."""
    end = left
    for one in box.below:
        end = _place(one, end) + GAP
    end = max(end - GAP, left + box.width)
    box.x = (box.below[0].x + box.below[-1].x) / 2 if box.below else left + box.width / 2
    box.x = max(box.x, left + box.width / 2)
    return max(end, box.x + box.width / 2)


def _all(box: Box) -> Iterator[Box]:
    yield box
    for below in box.below:
        yield from _all(below)


def _line(box: Box, below: Box) -> str:
    colour = COLOURS[below.pattern]
    y1, y2 = below.y, box.y + box.height
    x, y = (box.x + below.x) / 2 + 6, (y1 + y2) / 2 + 4
    return (
        f'<g stroke="{colour}" fill="{colour}"><title>{escape(below.reason)}</title>'
        f'<path d="M{below.x:.0f} {y1:.0f} L{box.x:.0f} {y2:.0f}" stroke-width="2"/>'
        f'<text x="{x:.0f}" y="{y:.0f}" stroke="none">{below.pattern}</text></g>'
    )


def _drawn(box: Box) -> str:
    round_ = 14 if box.depth == 0 else 3
    text = "".join(
        f'<text x="{box.x:.0f}" y="{box.y + LINE * (i + 1):.0f}" text-anchor="middle">{escape(line)}</text>'
        for i, line in enumerate(box.lines)
    )
    left = box.x - box.width / 2
    return (
        f'<rect x="{left:.0f}" y="{box.y:.0f}" width="{box.width:.0f}" height="{box.height:.0f}" rx="{round_}" '
        f'fill="#ffffff" stroke="#333333"/>{text}'
    )
