"""Files that a checkpoint cannot do without are never replaced: HDFS removes the old one first."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.spark.checkpoint import Store


@pytest.mark.parametrize("scheme", ["", "fsspec+file://"])
def test_the_description_of_a_flow_is_written_under_new_names(tmp_path: Path, scheme: str) -> None:
    store = Store(f"{scheme}{tmp_path}")
    assert store.open(2)["cells"] == 2
    before = (tmp_path / "flow.json").read_bytes()
    for number, cells in enumerate((3, 5), 1):
        store.next_deal().enter(cells, {"a": 1.0})
        store = Store(store.root)
        assert (store.deal, store.open(9)["cells"]) == (number, cells)
    assert (tmp_path / "flow.json").read_bytes() == before
    assert {p.name for p in tmp_path.glob("flow*")} == {"flow.json", "flow-1.json", "flow-2.json"}
