"""Work that is spread gives the same bytes everywhere, survives dead workers, and goes on where it stopped."""

import pytest

from tests.fleet import work
from twinproof.fleet.local import Here, Pool
from twinproof.fleet.slurm import Slurm
from twinproof.fleet.spread import Piece, chunk_size, spread
from twinproof.nouns.errors import FleetError
from twinproof.nouns.hashing import content_key
from twinproof.nouns.store import Store


def pieces(count, *more):
    return [Piece(content_key("piece", k, more), (k, *more), f"piece {k}") for k in range(count)]


def read(folders):
    return [
        sorted((path.name, path.read_bytes()) for path in folder.rglob("*") if path.is_file()) for folder in folders
    ]


def test_one_worker_and_many_give_the_same_bytes(tmp_path):
    asked = pieces(9, 4)
    alone = spread(work.draw, asked, Store(tmp_path / "a"), Here())
    pooled = spread(work.draw, asked, Store(tmp_path / "b"), Pool(2), chunk_s=0.0)
    arrayed = spread(work.draw, asked[:2], Store(tmp_path / "c"), Slurm(tmp_path / "jobs", 2, cluster="local"))
    assert read(alone) == read(pooled)
    assert read(alone[:2]) == read(arrayed)


def test_what_is_in_the_store_is_not_done_again(tmp_path):
    store, asked = Store(tmp_path), pieces(4, 2)
    first = spread(work.draw, asked[:3], store, Here())
    seen = []
    again = spread(work.draw, [*asked, asked[0]], store, Here(), progress=lambda done, *rest: seen.append(done))
    assert again[:3] == first
    assert again[4] == first[0]
    assert seen[0] == 4, "three from the store, one of them asked for twice"


def test_a_failure_leaves_the_others_done_and_is_told(tmp_path):
    store, asked = Store(tmp_path), pieces(6)
    with pytest.raises(FleetError, match="1 of 6 pieces failed, the first is 'piece 3': three is too many"):
        spread(work.fail_at_three, asked, store, Here())
    assert [store.has(piece.key) for piece in asked] == [True, True, True, False, True, True]


def test_a_result_too_large_to_travel_is_refused(tmp_path):
    with pytest.raises(FleetError, match="300 MiB; at most 256 travel"):
        spread(work.too_much, [Piece("a" * 64, ())], Store(tmp_path), Here())


def test_a_killed_worker_is_replaced_and_nothing_is_lost(tmp_path):
    asked = pieces(8, str(tmp_path / "mark"))
    found = spread(work.die_once, asked, Store(tmp_path / "store"), Pool(2))
    assert (tmp_path / "mark").exists()
    assert [folder.joinpath("k").read_text() for folder in found] == [str(k) for k in range(8)]


def test_work_that_always_kills_its_worker_is_given_up(tmp_path):
    with pytest.raises(FleetError, match="workers died 2 times; 1 pieces are left"):
        spread(work.die, [Piece("a" * 64, (), "deadly")], Store(tmp_path), Pool(1, tries=2))


def test_a_dead_slurm_job_is_told(tmp_path):
    with pytest.raises(FleetError, match="died with 1 pieces, the first is 'deadly'"):
        spread(work.die, [Piece("a" * 64, (), "deadly")], Store(tmp_path), Slurm(tmp_path / "j", cluster="local"))


def test_a_pool_without_workers_is_refused():
    with pytest.raises(FleetError, match="cannot work"):
        Pool(0)


def test_chunks_share_overhead_and_keep_all_workers_busy():
    assert chunk_size(1000, 2, seconds=0.01, chunk_s=2.0) == 125
    assert chunk_size(10_000, 2, seconds=0.01, chunk_s=2.0) == 200
    assert chunk_size(10, 4, seconds=5.0, chunk_s=2.0) == 1
