"""The verdict of `penstock bench spark-ranks` follows from its runs."""

from __future__ import annotations

import pytest

from penstock_lab.benchmarks.spark.ranks import PLAIN, RANKED, judged
from penstock_lab.benchmarks.spark.runs import Run


@pytest.mark.parametrize(
    ("took", "sums", "word"),
    [(102.0, {"rows": 5}, ""), (110.0, {"rows": 5}, "wanted"), (100.0, {"rows": 4}, "answers differ")],
)
def test_slower_flows_and_other_answers_are_told(took: float, sums: dict[str, int], word: str) -> None:
    plain = Run([(10, 100.0)] * 5, {"rows": 5})
    result = judged({PLAIN: [plain, plain], RANKED: [Run([(10, took)] * 5, sums)] * 2})
    assert result["holds"] is (not word)
    assert all(word in reason for reason in result["why_not"]) and bool(result["why_not"]) is bool(word)
