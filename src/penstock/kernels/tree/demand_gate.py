"""Whether it pays to ask before a partial result is made: if not, a tree runs for a while as if there were no demand. And whether it
pays to keep those that are made: where hardly any is, a tree keeps none (`tree_bare`).

Every turn of events what was not made is weighed against the rows looked at to know it and what every event costs. Rows are
counted, not nanoseconds, so that a tree run again on the same rows does the same. While nobody is asked all partial results
are made; what waits goes on to wait, and is taken up when its row comes, until it ends (docs/decisions/019). A tree that keeps
nothing looks at rows anew for all that is wanted; when these are many, it is to keep again.
"""

from __future__ import annotations

from penstock.kernels.compile import kernel, part
from penstock.kernels.tree.climb import (
    BEGAN,
    COLUMN,
    COUNT,
    CROWDED,
    FORMER,
    INDEX,
    KEEPING_ANEW,
    KEPT,
    LOOKED,
    MADE,
    NEVER_KEPT,
    RESTING,
    RESUMED,
    SIGHTED,
    SOURCE_WORDS,
    SOURCES,
    SPARED,
    STEADY,
    SUPPRESSED,
    SUSPENDED,
    TAIL,
    TURN,
    VISITS,
    WALKED,
    WOKEN,
)

EVENTS, RESTS, FIRST = 1024, 60, 1
"""Events of a turn; turns without questions after one in which they did not pay; turns since rows began to end that decide nothing."""
MAKING, ASKING, LOOKING = 60, 50, 4
"""What a partial result is taken to cost, an event's questions, and a row looked at for them: weights, set by hand so that no plan of the
figures stops and one that asks in vain does. Nothing was fitted to them."""
FRUITFUL = 8
"""While windows fill: so many times as much was made as was not."""
PARTNERS = 8
"""Partial results that a row set aside is taken to spare."""
FEW, WALKING, LOOKS = 8, 2, 48
"""A tree keeps nothing once fewer than one event in FEW makes a partial result; and keeps again once an event looks at LOOKS rows more than when it kept,
which takes as long as remembering what waits. Rows that answers are completed from count WALKING times more: each is asked for when the one before is known."""


@part
def resting(spec, regs):
    """Whether nobody is asked now."""
    return regs[spec[COUNT] + RESTING] > 0


@part
def count_event(spec, regs):
    """One event more."""
    c = spec[COUNT]
    if regs[c + RESTING] > 0:
        regs[c + RESTING] -= 1
        if regs[c + RESTING] == 0:
            regs[c + KEPT] -= RESTS
            begin_turn(spec, regs)
        return
    regs[c + TURN] += 1
    if regs[c + TURN] >= EVENTS:
        weigh(spec, regs)


@kernel
def begin_turn(spec, regs):
    """From here on is counted."""
    c = spec[COUNT]
    regs[c + TURN] = 0
    regs[c + SPARED] = regs[c + SUPPRESSED] + PARTNERS * (regs[c + SUSPENDED] - regs[c + WOKEN])
    regs[c + LOOKED] = regs[c + VISITS] - regs[c + SUPPRESSED]
    regs[c + BEGAN] = regs[c + MADE] + regs[c + RESUMED]
    regs[c + SIGHTED], regs[c + WALKED] = regs[c + VISITS], 0


@kernel
def weigh(spec, regs):
    """The end of a turn. While windows fill much waits, and is soon taken up: only where nearly all has been made by now, and nobody is
    aside, it is decided then. Nor is it where states are searched: there a partial result costs as much as all it is searched for."""
    c = spec[COUNT]
    spared, looked, events, began = regs[c + SPARED], regs[c + LOOKED], regs[c + TURN], regs[c + BEGAN]
    regs[c + FORMER] = regs[c + VISITS] - regs[c + SIGHTED]
    begin_turn(spec, regs)
    spared, looked = regs[c + SPARED] - spared, regs[c + LOOKED] - looked
    ended = False
    for i in range(spec[SOURCES]):
        ended = ended or regs[i * SOURCE_WORDS + TAIL] > 0
    regs[c + STEADY] += ended
    searched = regs[spec[INDEX] + COLUMN] == NEVER_KEPT
    if regs[c + STEADY] > FIRST:
        vain = MAKING * spared < ASKING * events + LOOKING * looked
    else:
        denied = regs[c + SUPPRESSED] + regs[c + SUSPENDED] - regs[c + WOKEN]
        vain = regs[c + MADE] + regs[c + RESUMED] > FRUITFUL * (denied + 1)
    regs[c + KEPT] -= 1
    if searched:
        return
    if vain:
        regs[c + RESTING] = EVENTS * RESTS
    elif regs[c + KEPT] <= 0 and FEW * (regs[c + BEGAN] - began) < events:
        change(spec, regs)


@part
def change(spec, regs):
    """From the next event on partial results are to be kept, or no longer."""
    regs[spec[COUNT] + CROWDED] |= KEEPING_ANEW


@part
def count_bare_event(spec, regs):
    """One event more of a tree that keeps nothing."""
    c = spec[COUNT]
    regs[c + TURN] += 1
    if regs[c + TURN] >= EVENTS:
        looked = regs[c + VISITS] - regs[c + SIGHTED] + WALKING * regs[c + WALKED]
        begin_turn(spec, regs)
        if looked > regs[c + FORMER] + LOOKS * EVENTS:
            change(spec, regs)
