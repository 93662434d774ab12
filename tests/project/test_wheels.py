"""What is shipped: the wheel of penstock holds the engine alone, that of penstock-lab what it is measured by."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

ROOT = Path(__file__).parents[2]
NOT_SHIPPED = {"penstock_lab", "matplotlib", "datafusion", "duckdb", "hypothesis", "pytest", "tests", "lab"}
"""Packages that only benchmarks, figures and tests may import."""


def built(project: Path, folder: Path) -> ZipFile:
    """The wheel of a project of this repository, made as an installer would make it."""
    command = [sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", str(folder)]
    subprocess.run(command, cwd=project, check=True, capture_output=True, timeout=120)
    (wheel,) = folder.glob("*.whl")
    return ZipFile(wheel)


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return built(ROOT, tmp_path_factory.mktemp("penstock"))


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> ZipFile:
    return built(ROOT / "lab", tmp_path_factory.mktemp("penstock-lab"))


def packages(wheel: ZipFile) -> set[str]:
    """Top-level names, without metadata."""
    return {name.split("/")[0] for name in wheel.namelist()} - {metadata(wheel)}


def metadata(wheel: ZipFile) -> str:
    (name,) = {name.split("/")[0] for name in wheel.namelist() if ".dist-info/" in name}
    return name


def text(wheel: ZipFile, name: str) -> str:
    return wheel.read(name).decode()


def imported(code: str) -> set[str]:
    """Top-level packages that a module imports anywhere, also in functions."""
    names: set[str] = set()
    for node in ast.walk(ast.parse(code)):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module.split(".")[0])
    return names


def test_the_engine_is_shipped_without_benchmarks_and_figures(engine: ZipFile) -> None:
    assert packages(engine) == {"penstock"}
    parts = {part for name in engine.namelist() for part in Path(name).with_suffix("").parts}
    assert not parts & {"figure", "figures", "bench", "benches", "benchmarks", "baselines", "exhaustive"}
    assert {"penstock/__init__.py", "penstock/py.typed"} <= set(engine.namelist())
    modules = [name for name in engine.namelist() if name.endswith(".py")]
    assert len(modules) > 200
    wrong = {name: found for name in modules if (found := imported(text(engine, name)) & NOT_SHIPPED)}
    assert wrong == {}


def test_the_engine_asks_for_nothing_that_only_comparisons_need(engine: ZipFile) -> None:
    lines = text(engine, f"{metadata(engine)}/METADATA").splitlines()
    required = [line for line in lines if line.startswith("Requires-Dist:") and "extra == 'dev'" not in line]
    assert any("numba" in line for line in required)
    assert not [line for line in required if any(name in line for name in NOT_SHIPPED)]
    assert "penstock.commands" not in text(engine, f"{metadata(engine)}/entry_points.txt")


def test_the_lab_is_shipped_with_its_commands_and_queries(lab: ZipFile) -> None:
    assert packages(lab) == {"penstock_lab"}
    held = set(lab.namelist())
    for part in ("figures", "benchmarks", "reference", "baselines", "searches", "commands"):
        assert f"penstock_lab/{part}/__init__.py" in held
    source = ROOT / "lab" / "src"
    queries = {str(path.relative_to(source)) for path in source.rglob("*.sql")}
    assert queries and queries <= held
    declared = text(lab, f"{metadata(lab)}/entry_points.txt")
    assert "[penstock.commands]\nbench = penstock_lab.cli:bench\nfigure = penstock_lab.cli:figure" in declared


def test_both_have_the_same_version(engine: ZipFile, lab: ZipFile) -> None:
    """The lab looks inside the engine, so it asks for the one it was made with."""
    version = metadata(engine).removesuffix(".dist-info").split("-")[1]
    assert metadata(lab) == f"penstock_lab-{version}.dist-info"
    assert f"Requires-Dist: penstock=={version}\n" in text(lab, f"{metadata(lab)}/METADATA")
