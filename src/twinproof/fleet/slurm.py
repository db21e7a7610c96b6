"""Work as an array of Slurm jobs, through submitit: chunks are written to a shared folder, answers are read from it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from twinproof.fleet.spread import Answer, Fill, Piece, answers
from twinproof.nouns.errors import FleetError, MissingExtra


@dataclass(frozen=True)
class Slurm:
    """An array of jobs. `folder` is seen by all nodes; `cluster` "local" runs the same as processes of this machine."""

    folder: Path
    workers: int = 16  # jobs of the array that run at once
    minutes: int = 60  # of one chunk
    cpus: int = 1
    partition: str = ""
    cluster: Literal["slurm", "local"] = "slurm"

    def run(self, fill: Fill, chunks: Sequence[Sequence[Piece]]) -> Iterator[list[Answer]]:
        """Answers in the order of the chunks."""
        executor = self._executor()
        jobs = executor.map_array(answers, [fill] * len(chunks), [list(chunk) for chunk in chunks])
        for job, chunk in zip(jobs, chunks, strict=True):
            try:
                found: list[Answer] = job.result()
            except Exception as problem:  # noqa: BLE001  submitit passes on whatever the job died of
                first = chunk[0]
                raise FleetError(
                    f"job {job.job_id} died with {len(chunk)} pieces, the first is {first.name or first.key[:12]!r}: "
                    f"{(str(problem).strip().splitlines() or ['no reason given'])[-1]}. Its log lies in {self.folder}."
                ) from None
            yield found

    def _executor(self) -> Any:
        try:
            import submitit
        except ImportError:
            raise MissingExtra("submitit is not installed. Add it with `pip install 'twinproof[ray]'`.") from None
        executor = submitit.AutoExecutor(folder=str(self.folder), cluster=self.cluster)
        more: dict[str, Any] = {"slurm_array_parallelism": self.workers} if self.cluster == "slurm" else {}
        if self.partition:
            more["slurm_partition"] = self.partition
        executor.update_parameters(timeout_min=self.minutes, cpus_per_task=self.cpus, **more)
        return executor
