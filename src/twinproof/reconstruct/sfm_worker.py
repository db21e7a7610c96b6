"""Structure from motion in a process of its own: `python -m twinproof.reconstruct.sfm_worker JOB.json`.

COLMAP ends the process when something goes wrong in its C++ parts. What happens comes out as JSON, one object a line;
the last one is the result.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

CHUNK = 8  # pictures between two words about progress
SEED = 0
SMALLEST = 3  # pictures of a model that COLMAP may keep


def main(job: dict[str, Any], out: Any) -> None:
    """Does the steps that the job names, in order; the last line that it writes is the result of the last one."""
    import pycolmap

    def tell(**words: object) -> None:
        out.write(json.dumps(words) + "\n")
        out.flush()

    pycolmap.set_random_seed(SEED)
    for step in job["steps"]:
        match step:
            case "extract":
                _extract(pycolmap, job, tell)
            case "match":
                tell(doing="matching pictures", done=0)
                matching = pycolmap.FeatureMatchingOptions(num_threads=job["threads"], use_gpu=False)
                matching.type = pycolmap.FeatureMatcherType.SIFT_BRUTEFORCE
                match_pairs = pycolmap.match_sequential if job["sequential"] else pycolmap.match_exhaustive
                match_pairs(job["database"], matching_options=matching, device=pycolmap.Device.cpu)
            case "incremental" | "global":
                tell(**_mapped(pycolmap, step, job, tell))


def _extract(pycolmap: Any, job: dict[str, Any], tell: Any) -> None:
    names = sorted(path.name for path in Path(job["images"]).iterdir())
    mode = pycolmap.CameraMode.SINGLE if job["one_camera"] else pycolmap.CameraMode.PER_IMAGE
    reader = pycolmap.ImageReaderOptions(camera_model="SIMPLE_RADIAL")
    options = pycolmap.FeatureExtractionOptions(num_threads=job["threads"], use_gpu=False)
    options.type = pycolmap.FeatureExtractorType.SIFT  # ALIKED would end the process
    for first in range(0, len(names), CHUNK):
        tell(doing="finding features", done=first)
        if job["one_camera"] and first:
            reader.existing_camera_id = 1
        chunk = names[first : first + CHUNK]
        pycolmap.extract_features(job["database"], job["images"], chunk, mode, reader, options, pycolmap.Device.cpu)


def _mapped(pycolmap: Any, mapper: str, job: dict[str, Any], tell: Any) -> dict[str, object]:
    """Maps, writes the largest model into job["model"], and says what it holds."""
    model, doing = Path(job["model"]), "placing cameras" if mapper == "incremental" else "placing cameras at once"
    scratch = model.with_suffix(".all")
    tell(doing=doing, done=0)
    scratch.mkdir()
    model.mkdir()
    if mapper == "incremental":
        options = pycolmap.IncrementalPipelineOptions(num_threads=job["threads"], random_seed=SEED)
        options.min_model_size = SMALLEST
        count = 1

        def one_more() -> None:
            nonlocal count
            count += 1
            tell(doing=doing, done=count)

        found = pycolmap.incremental_mapping(
            job["database"], job["images"], scratch, options, next_image_callback=one_more
        )
    else:
        options = pycolmap.GlobalPipelineOptions(num_threads=job["threads"], random_seed=SEED)
        found = pycolmap.global_mapping(job["database"], job["images"], scratch, options)
    if not found:
        return {"registered": 0, "points": 0, "error_px": 0.0, "focal_px": []}
    best = max(found.values(), key=lambda each: (each.num_reg_images(), each.num_points3D()))
    best.write(model)
    return {
        "registered": best.num_reg_images(),
        "points": best.num_points3D(),
        "error_px": round(best.compute_mean_reprojection_error(), 4),
        "focal_px": sorted(round(camera.mean_focal_length(), 2) for camera in best.cameras.values()),
    }


if __name__ == "__main__":
    lines = os.fdopen(os.dup(1), "w", encoding="utf-8")  # ours alone: COLMAP may print as well
    os.dup2(2, 1)
    main(json.loads(Path(sys.argv[1]).read_text(encoding="utf-8")), lines)
