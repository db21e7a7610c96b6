"""The same bytes on a real Ray cluster of several nodes on this machine, one of which dies during the work."""

import threading

import pytest

from tests.fleet import work
from tests.fleet.test_spread import pieces, read
from twinproof.fleet.local import Here
from twinproof.fleet.spread import spread
from twinproof.nouns.errors import FleetError
from twinproof.nouns.store import Store

ray = pytest.importorskip("ray", reason="the extra ray is not installed")
pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("ignore")]  # Ray warns about itself


@pytest.fixture(scope="module")
def cluster():
    from ray.cluster_utils import Cluster

    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 1, "include_dashboard": False})
    made.add_node(num_cpus=1)
    made.wait_for_nodes()
    yield made
    ray.shutdown()
    made.shutdown()


def test_a_cluster_of_two_nodes_gives_the_same_bytes(cluster, tmp_path):
    from twinproof.fleet.ray_cluster import RayCluster

    where = RayCluster(cluster.address)
    assert where.workers == 2
    asked = pieces(12, 4)
    found = spread(work.draw, asked, Store(tmp_path / "ray"), where)
    assert read(found) == read(spread(work.draw, asked, Store(tmp_path / "here"), Here()))


def test_a_node_that_dies_loses_nothing(cluster, tmp_path):
    from twinproof.fleet.ray_cluster import RayCluster

    doomed = cluster.add_node(num_cpus=2)
    cluster.wait_for_nodes()
    where = RayCluster(cluster.address)
    assert where.workers == 4
    threading.Timer(1.5, lambda: cluster.remove_node(doomed, allow_graceful=False)).start()
    found = spread(work.slow, pieces(24, 0.3), Store(tmp_path), where, chunk_s=0.3)
    assert [folder.joinpath("k").read_text() for folder in found] == [str(k) for k in range(24)]


def test_a_killed_worker_is_replaced(cluster, tmp_path):
    from twinproof.fleet.ray_cluster import RayCluster

    found = spread(work.die_once, pieces(8, str(tmp_path / "mark")), Store(tmp_path / "s"), RayCluster(cluster.address))
    assert (tmp_path / "mark").exists()
    assert [folder.joinpath("k").read_text() for folder in found] == [str(k) for k in range(8)]


def test_an_address_where_nobody_answers_is_named(cluster):
    from twinproof.fleet.ray_cluster import RayCluster

    ray.shutdown()
    with pytest.raises(FleetError, match="no Ray cluster answers at '127.0.0.1:1'"):
        RayCluster("127.0.0.1:1")
