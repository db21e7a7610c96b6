"""The same bytes on a real Ray cluster of several nodes on this machine, one of which dies during the work."""

import json
import os
import subprocess
import sys
import threading

import pytest

from tests.fleet import work
from tests.fleet.test_spread import pieces, read
from twinproof.fleet.local import Here
from twinproof.fleet.spread import spread
from twinproof.nouns.errors import FleetError
from twinproof.nouns.store import Store

os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] = "0"  # before Ray is imported: all nodes on loopback
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


ALONE = """
import json, sys
from pathlib import Path
from tests.fleet import work
from tests.fleet.test_spread import pieces, read
from twinproof.fleet.local import Here
from twinproof.fleet.place import place_of
from twinproof.fleet.spread import spread
from twinproof.nouns.store import Store

if len(sys.argv) > 2:
    import ray
folder = Path(sys.argv[1])
where = place_of("ray", folder)
import psutil  # Ray brings it along
same = read(spread(work.draw, pieces(6, 4), Store(folder / "ray"), where)) == read(
    spread(work.draw, pieces(6, 4), Store(folder / "here"), Here())
)
family = psutil.Process().children(recursive=True)
listening = {c.laddr.ip for p in family for c in p.net_connections(kind="inet") if c.status == "LISTEN"}
where.close()
print(json.dumps({"same": same, "listening": sorted(listening)}))
"""


def alone(folder, *more):
    """A fresh Python that starts a cluster of its own."""
    surroundings = {k: v for k, v in os.environ.items() if k != "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"}
    command = [sys.executable, "-W", "ignore", "-c", ALONE, str(folder), *more]
    return subprocess.run(command, capture_output=True, text=True, timeout=300, env=surroundings, check=False)


def test_a_cluster_that_is_started_here_listens_on_loopback_alone(tmp_path):
    ended = alone(tmp_path)
    assert ended.returncode == 0, ended.stderr[-2000:]
    told = json.loads(ended.stdout.splitlines()[-1])
    assert told["same"]
    assert told["listening"]
    assert all(place.removeprefix("::ffff:") == "127.0.0.1" for place in told["listening"]), told


def test_a_ray_that_would_listen_elsewhere_is_refused(tmp_path):
    ended = alone(tmp_path, "imported before")
    if "FleetError" not in ended.stderr:  # a machine without any other address has nothing to refuse
        assert ended.returncode == 0, ended.stderr[-2000:]
        return
    assert "where others can reach it" in ended.stderr
