"""`penstock bench` and `penstock figure`: what users may type, and nothing else.

`penstock --help` imports this module, so the rest is imported when a command is called.
"""

from __future__ import annotations

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class BenchName(StrEnum):
    """The benchmarks there are."""

    window_join = "window-join"
    three_way = "three-way"
    distinct_except = "distinct-except"
    sliding_aggregate = "sliding-aggregate"
    standing_queries = "standing-queries"
    overload = "overload"
    criteria = "criteria"
    promises = "promises"
    spark_join = "spark-join"
    spark_queries = "spark-queries"
    spark_ranks = "spark-ranks"


class Probing(StrEnum):
    """How trees of joins search their states."""

    by_index = "index"
    by_search = "nested"


class ClockName(StrEnum):
    """By which clock budgets of figures go."""

    virtual = "virtual"
    wall = "wall"


class FigureName(StrEnum):
    """The figures there are, and all of them."""

    upa_9 = "upa-9"
    upa_10 = "upa-10"
    upa_11 = "upa-11"
    upa_12 = "upa-12"
    upa_13 = "upa-13"
    upa_14 = "upa-14"
    upa_15 = "upa-15"
    upa_16 = "upa-16"
    upa_17 = "upa-17"
    cacq_lineage = "cacq-lineage"
    cacq_queries = "cacq-queries"
    cacq_sources = "cacq-sources"
    cacq_routing = "cacq-routing"
    cacq_tickets_1 = "cacq-tickets-1"
    cacq_tickets_2 = "cacq-tickets-2"
    cacq_tickets_3 = "cacq-tickets-3"
    cacq_niagara = "cacq-niagara"
    cacq_udf = "cacq-udf"
    jit_10 = "jit-10"
    jit_11 = "jit-11"
    jit_12 = "jit-12"
    jit_13 = "jit-13"
    jit_14 = "jit-14"
    jit_15 = "jit-15"
    jit_16 = "jit-16"
    jit_17 = "jit-17"
    jit_eight = "jit-eight"
    jit_fruitful = "jit-fruitful"
    pp_4_5 = "pp-4.5"
    pp_4_6 = "pp-4.6"
    pp_4_7 = "pp-4.7"
    pp_4_8 = "pp-4.8"
    pp_4_9 = "pp-4.9"
    pp_4_10 = "pp-4.10"
    pp_costly = "pp-costly"
    tpag_5_4 = "tpag-5.4"
    tpag_5_5 = "tpag-5.5"
    tpag_5_6 = "tpag-5.6"
    tpag_5_7 = "tpag-5.7"
    tpag_5_8 = "tpag-5.8"
    tpag_5_9 = "tpag-5.9"
    tpag_population = "tpag-population"
    pr_6_4 = "pr-6.4"
    pr_6_5 = "pr-6.5"
    pr_6_6 = "pr-6.6"
    pr_6_7 = "pr-6.7"
    pr_6_8 = "pr-6.8"
    pr_6_9 = "pr-6.9"
    pr_6_10 = "pr-6.10"
    prj_7_4 = "prj-7.4"
    prj_7_5 = "prj-7.5"
    prj_7_6 = "prj-7.6"
    prj_7_7 = "prj-7.7"
    prj_7_8 = "prj-7.8"
    prj_7_9 = "prj-7.9"
    all = "all"


def bench(
    name: Annotated[BenchName, typer.Argument(help="Which benchmark.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object as the last line.")] = False,
    quick: Annotated[
        bool, typer.Option("--quick", help="A quarter of the data and fewer repetitions.")
    ] = False,
    datafusion: Annotated[bool, typer.Option(help="Compare with DataFusion too.")] = True,
) -> None:
    """Measure the engine against hand-written programs and other engines, all in one run."""
    from penstock_lab.commands import bench as command

    raise typer.Exit(command.bench(name.value, as_json=as_json, quick=quick, datafusion=datafusion))


def figure(
    name: Annotated[FigureName, typer.Argument(help="Which figure, or all.")],
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer windows or queries, and fewer repetitions.")
    ] = False,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Where NAME.csv and NAME.png are written.")] = Path(
        "figures"
    ),
    probing: Annotated[
        Probing, typer.Option(help="jit-*: look partners up, or search for them as the paper does.")
    ] = Probing.by_index,
    clock: Annotated[
        ClockName,
        typer.Option(
            help="pp-*, tpag-*: budgets are units, and runs repeat themselves; or they are real time."
        ),
    ] = ClockName.virtual,
) -> None:
    """Reproduce a paper's figure: CSV, PNG and a verdict, one JSON object as the last line."""
    from penstock_lab.commands import figure as command

    raise typer.Exit(
        command.figure(name.value, quick=quick, out=out, probing=probing.value, clock=clock.value)
    )
