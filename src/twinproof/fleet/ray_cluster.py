"""Work on a Ray cluster. Ray's servers listen on all interfaces by default: ours, when we start one, on loopback.

Ray turns a stated 127.0.0.1 back into the machine's address unless clusters are switched off in its environment before
it is first imported. So that is done, and looked at afterwards.
"""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from twinproof.fleet.spread import Answer, Fill, Piece, answers
from twinproof.nouns.errors import FleetError, MissingExtra

LOOPBACK = "127.0.0.1"
ALONE = "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"  # "0": this machine alone, on every system in spite of its name
PATIENCE_S = 5.0


@dataclass(frozen=True)
class RayCluster:
    """Workers of a cluster that runs (`address`, "ray://HOST:PORT" or "HOST:PORT"), or of one started for this work.

    A chunk whose worker or node dies is run again elsewhere, `retries` times. Nodes need twinproof installed.
    """

    address: str = ""
    cpus: int = 2  # of the cluster that is started here when no address is given
    cpus_a_chunk: float = 1.0
    retries: int = 3
    workers: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        if not self.address and "ray" not in sys.modules:
            os.environ[ALONE] = "0"
        ray = _ray()
        if not ray.is_initialized():
            _connect(ray, self.address, self.cpus)
        free = ray.cluster_resources().get("CPU", 0.0) / self.cpus_a_chunk
        if free < 1:
            raise FleetError(f"the Ray cluster has {free:.2g} places for work. Add nodes, or ask for less a chunk.")
        object.__setattr__(self, "workers", int(free))

    def run(self, fill: Fill, chunks: Sequence[Sequence[Piece]]) -> Iterator[list[Answer]]:
        """Answers as chunks end."""
        ray = _ray()
        remote = ray.remote(num_cpus=self.cpus_a_chunk, max_retries=self.retries)(answers)
        waiting = {remote.remote(fill, list(chunk)): chunk for chunk in chunks}
        while waiting:
            ended, _ = ray.wait(list(waiting), num_returns=1)
            for each in ended:
                chunk = waiting.pop(each)
                try:
                    yield ray.get(each)
                except (ray.exceptions.WorkerCrashedError, ray.exceptions.NodeDiedError) as problem:
                    first = chunk[0]
                    raise FleetError(
                        f"the workers of {len(chunk)} pieces died {self.retries + 1} times, the first is "
                        f"{first.name or first.key[:12]!r} ({type(problem).__name__}). Look for a lack of memory there."
                    ) from None

    def close(self) -> None:
        """Lets go of the cluster; one that was started for this work ends."""
        _ray().shutdown()


def _connect(ray: Any, address: str, cpus: int) -> None:
    quiet = {"include_dashboard": False, "log_to_driver": False, "logging_level": "error"}
    if not address:
        ray.init("local", num_cpus=cpus, _node_ip_address=LOOPBACK, **quiet)  # never one that happens to run here
        at = ray.util.get_node_ip_address()
        if at != LOOPBACK:
            ray.shutdown()
            raise FleetError(
                f"Ray would listen on {at}, where others can reach it: it was imported before twinproof could keep it "
                f"to this machine. Set {ALONE}=0 before Python starts, or name a cluster of your own: --on ray://HOST:PORT."
            )
        return
    host, _, port = address.removeprefix("ray://").rpartition(":")
    try:  # Ray itself would try for minutes
        socket.create_connection((host, int(port)), timeout=PATIENCE_S).close()
    except (OSError, ValueError) as problem:
        raise FleetError(
            f"no Ray cluster answers at {address!r} ({problem}). Start one with ray start --head, or leave the "
            "address out: --on ray."
        ) from None
    ray.init(address=address, log_to_driver=False, logging_level="error")


def _ray() -> Any:
    try:
        import ray
    except ImportError:
        raise MissingExtra("Ray is not installed. Add it with `pip install 'twinproof[ray]'`.") from None
    return ray
