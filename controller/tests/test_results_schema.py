from __future__ import annotations

from pathlib import Path

import pytest

from controller.results import schema

DOCS = Path(__file__).parents[2] / "docs"


@pytest.mark.parametrize("table", schema.TABLES, ids=lambda table: table.path)
def test_the_documentation_shows_every_table_as_it_is(table: schema.Table) -> None:
    text = (DOCS / "results-format.md").read_text()
    assert f"`{table.path}`" in text
    assert schema.markdown(table) in text


def test_the_documentation_shows_every_column_of_an_io_row() -> None:
    text = (DOCS / "results-format.md").read_text()
    for name, (unit, meaning) in schema.IO_ROW_MEANINGS.items():
        assert f"| `{name}` | {unit} | {meaning} |" in text


def test_every_metric_of_the_summary_is_defined() -> None:
    text = (DOCS / "metrics.md").read_text()
    names = [*("count", "errors", "throughput_ops_per_s", "runtime_s", "ios", "bytes")]
    names += [f"{name}_us" for name in ("mean", *schema.QUANTILES, "max")]
    names += ["intended_p50_us", "intended_p99_us"]
    names += [f"{layer}_{what}_ns" for layer in schema.TIMED for what in ("mean", "p99")]
    assert [name for name in names if f"`{name}`" not in text] == []


def test_the_columns_of_an_operation_begin_with_its_name() -> None:
    columns = schema.joined_columns(["READ-MODIFY-WRITE"])
    assert "read_modify_write_p99_us" in columns
    assert columns[:3] == ["bucket_start_us", "phase", "node"]
