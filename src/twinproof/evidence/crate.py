"""The evidence's folder as an RO-Crate 1.1: ro-crate-metadata.json says what each file is and what was made of what."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath

from twinproof.nouns.evidence import Evidence
from twinproof.nouns.hashing import Json

CONTEXT = "https://w3id.org/ro/crate/1.1/context"
FILES = {
    "evidence.json": ("application/json", "inputs, fits, parameters, ranges, panel, claims, ledger"),
    "trials.parquet": ("application/vnd.apache.parquet", "one row per trial"),
    "report.html": ("text/html", "the report"),
}
KINDS = {
    ".md": "text/markdown",
    ".json": "application/json",
    ".html": "text/html",
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".webp": "image/webp",
}


def crate(evidence: Evidence, told: Mapping[str, Json], documents: Mapping[str, bytes]) -> dict[str, Json]:
    """The crate's description: a graph of the root, its files, the inputs by hash, and an action for each fit."""
    files = [_file(name, kind, about) for name, (kind, about) in FILES.items()]
    for name, content in documents.items():
        files.append({**_file(name, KINDS[PurePath(name).suffix.lower()], ""), "contentSize": str(len(content))})
    traces = [
        {
            "@id": f"traces/{hash}/",
            "@type": "Dataset",
            "name": f"what happened in trial {hash[:12]}",
            "identifier": hash,
        }
        for hash in sorted(evidence.traces)
    ]
    inputs = [
        {"@id": f"urn:blake3:{entry.hash}", "@type": "CreativeWork", "name": name, "identifier": entry.hash}
        for name, entry in evidence.inputs.items()
    ]
    software = {
        "@id": "#twinproof",
        "@type": "SoftwareApplication",
        "name": "twinproof",
        "softwareVersion": evidence.versions.get("twinproof", ""),
    }
    actions = [
        {
            "@id": f"#fit-{n}",
            "@type": "CreateAction",
            "name": fit.stage,
            "instrument": {"@id": "#twinproof"},
            "object": [{"@id": f"#episode-{id}"} for id in fit.episodes],
            "result": {"@id": f"urn:blake3:{fit.result}"},
        }
        for n, fit in enumerate(evidence.fits, 1)
    ]
    seen = sorted({id for fit in evidence.fits for id in fit.episodes})
    episodes = [{"@id": f"#episode-{id}", "@type": "CreativeWork", "name": f"episode {id}"} for id in seen]
    made = {fit.result for fit in evidence.fits} - {entry.hash for entry in evidence.inputs.values()}
    others = [
        {"@id": f"urn:blake3:{hash}", "@type": "CreativeWork", "name": f"made, not used: {hash[:12]}"}
        for hash in sorted(made)
    ]
    return {
        "@context": CONTEXT,
        "@graph": [
            *_root(evidence, told, [*files, *traces]),
            *files,
            *traces,
            *inputs,
            *others,
            software,
            *actions,
            *episodes,
        ],
    }


def _file(name: str, kind: str, about: str) -> dict[str, Json]:
    told = {"@id": name, "@type": "File", "name": name, "encodingFormat": kind}
    return {**told, "description": about} if about else told


def _root(evidence: Evidence, told: Mapping[str, Json], parts: list[dict[str, Json]]) -> list[dict[str, Json]]:
    own = told["evidence"]
    claims = "; ".join(f"{claim.name}: {claim.verdict}" for claim in evidence.claims)
    descriptor = {
        "@id": "ro-crate-metadata.json",
        "@type": "CreativeWork",
        "conformsTo": {"@id": "https://w3id.org/ro/crate/1.1"},
        "about": {"@id": "./"},
    }
    root = {
        "@id": "./",
        "@type": "Dataset",
        "name": f"{own['title']}: evidence",
        "description": claims,
        "datePublished": own["as_of"][:10],
        "identifier": evidence.hash,
        "license": "all rights with whoever made the recordings; twinproof states none",
        "hasPart": [{"@id": part["@id"]} for part in parts],
        "mentions": [{"@id": f"#fit-{n}"} for n in range(1, len(evidence.fits) + 1)],
    }
    return [descriptor, root]
