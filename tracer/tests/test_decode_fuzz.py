"""Damaged traces: the decoder says what is wrong, or decodes what is left; it never crashes.

The files are damaged copies of a real trace, so nothing here knows the format beyond magic and version.
"""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tracer import decode
from tracer.tests.tracing import fio, tracing

EXIT_UNREADABLE = 5
VERSION_AT = 8
pytestmark = [pytest.mark.bpf, pytest.mark.root]
many = settings(max_examples=200, suppress_health_check=[HealthCheck.function_scoped_fixture])

Damage = Callable[[bytes], bytes]
share = st.floats(0, 1, exclude_max=True)  # of the file's length
extremes = st.sampled_from([b"\0", b"\xff", b"\x7f", b"\x80"])


def _at(content: bytes, where: float) -> int:
    return int(where * len(content))


def overwritten(where: float, data: bytes) -> Damage:
    return lambda content: content[: _at(content, where)] + data + content[_at(content, where) + len(data) :]


def inserted(where: float, data: bytes) -> Damage:
    return lambda content: content[: _at(content, where)] + data + content[_at(content, where) :]


def cut_out(where: float, length: int) -> Damage:
    return lambda content: content[: _at(content, where)] + content[_at(content, where) + length :]


def repeated(where: float, length: int) -> Damage:
    return lambda content: content[: _at(content, where) + length] + content[_at(content, where) :]


def shortened(where: float) -> Damage:
    return lambda content: content[: _at(content, where)]


data = st.one_of(st.binary(min_size=1, max_size=16), st.builds(lambda b, n: b * n, extremes, st.integers(1, 64)))
lengths = st.integers(1, 300)
damages = st.lists(
    st.one_of(
        st.builds(overwritten, share, data),
        # The header is a small part of the file, and the part that says how to read the rest.
        st.builds(overwritten, share.map(lambda where: where / 20), data),
        st.builds(inserted, share, data),
        st.builds(cut_out, share, lengths),
        st.builds(repeated, share, lengths),
        st.builds(shortened, share),
    ),
    min_size=1,
    max_size=4,
)


@pytest.fixture(scope="module")
def whole(can_trace: None, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A trace with reads, writes, flushes and journal, of whatever disks are under the temporary directory."""
    folder = tmp_path_factory.mktemp("fuzz")
    with tracing(folder / "io.bin", "--vfs") as trace:
        fio(f"--directory={folder}", "--rw=randrw", "--bs=4k", "--fsync=4", "--number_ios=200", "--size=4M")
        assert trace.stop() == 0
    if trace.status()["emitted"] < 50:
        pytest.skip("the temporary directory is on no disk")
    return (folder / "io.bin").read_bytes()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "io.bin"


@pytest.fixture(autouse=True)
def memory_stays_small() -> Iterator[None]:
    """A damaged number must not be taken for a size."""
    yield
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 2 << 20, "KiB"


def assert_decoded_or_refused(path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    capsys.readouterr()
    code = decode.main([str(path), "--csv", str(path.with_suffix(".csv"))])
    err = capsys.readouterr().err
    if code == EXIT_UNREADABLE:
        assert err.startswith(f"tracer.decode: {path}")
        assert err.count("\n") == 1
        with pytest.raises(ValueError, match=str(path)):
            decode.read_table(path)
        return
    assert code == 0
    table = decode.read_table(path)
    table.validate(full=True)
    assert err == f"{table.num_rows} records\n"


@many
@given(damage=st.data())
def test_any_damage_is_decoded_or_refused(
    whole: bytes, damage: st.DataObject, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    content = whole
    for harm in damage.draw(damages):
        content = harm(content)
    path.write_bytes(content)
    assert_decoded_or_refused(path, capsys)


@many
@given(rest=st.binary(max_size=4096))
def test_noise_after_a_true_header(whole: bytes, rest: bytes, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    header_bytes = int.from_bytes(whole[12:16], "little")
    path.write_bytes(whole[:header_bytes] + rest)
    assert_decoded_or_refused(path, capsys)


@many
@given(content=st.binary(max_size=300))
def test_noise_alone(content: bytes, path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path.write_bytes(content)
    assert_decoded_or_refused(path, capsys)


@given(version=st.integers(0, 2**32 - 1))
@many
def test_another_version_is_refused_and_named(
    whole: bytes, version: int, path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    own = int.from_bytes(whole[VERSION_AT : VERSION_AT + 4], "little")
    path.write_bytes(whole[:VERSION_AT] + version.to_bytes(4, "little") + whole[VERSION_AT + 4 :])
    capsys.readouterr()
    expected = 0 if version == own else EXIT_UNREADABLE
    assert decode.main([str(path)]) == expected
    assert f"version {version}" in capsys.readouterr().err or version == own


@settings(many, max_examples=40)
@given(kept=share)
def test_a_truncated_trace_has_the_first_rows_of_the_whole_one(whole: bytes, kept: float, path: Path) -> None:
    header_bytes = int.from_bytes(whole[12:16], "little")
    path.write_bytes(whole)
    rows = decode.read_table(path)
    path.write_bytes(whole[: header_bytes + int(kept * (len(whole) - header_bytes))])
    first = decode.read_table(path)
    # The record that says when a call returned stands behind those of its requests, and may be cut off.
    returned, all_returned = (table["return_ns"].to_pylist() for table in (first, rows))
    assert all(part in (None, full) for part, full in zip(returned, all_returned, strict=False))
    first, rows = first.drop_columns(["return_ns"]), rows.drop_columns(["return_ns"])
    assert first.to_pydict() == rows.slice(0, first.num_rows).to_pydict()


def test_a_byte_less_costs_one_row_at_most(whole: bytes, path: Path) -> None:
    path.write_bytes(whole)
    rows = decode.read_table(path).num_rows
    path.write_bytes(whole[:-1])
    assert rows - 1 <= decode.read_table(path).num_rows <= rows
