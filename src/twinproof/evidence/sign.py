"""Signatures: an in-toto statement over every file of the evidence, in a DSSE envelope, with Ed25519.

evidence.dsse.json   {"payloadType", "payload": base64 of the statement, "signatures": [{"keyid", "sig"}]}
statement            subject: each file with its SHA-256; predicate: the evidence's hash, its claims and versions
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from twinproof.nouns.errors import EvidenceError
from twinproof.nouns.evidence import Evidence
from twinproof.nouns.files import write_json, write_whole
from twinproof.nouns.hashing import Json, canonical
from twinproof.nouns.strict import plain

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

ENVELOPE = "evidence.dsse.json"
TYPE = "application/vnd.in-toto+json"
STATEMENT = "https://in-toto.io/Statement/v1"
PREDICATE = "urn:twinproof:evidence:1"


def new_key(path: Path) -> Path:
    """Writes a new private key, readable by its owner alone, and its public half beside it: PATH and PATH.pub."""
    from cryptography.hazmat.primitives import serialization as form
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

    public = path.with_name(f"{path.name}.pub")
    for taken in (path, public):
        if taken.exists():
            raise EvidenceError(f"{taken} exists. No key is overwritten: name another file.")
    key = Ed25519PrivateKey.generate()
    secret = key.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption())
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as handle:
        handle.write(secret)
    write_whole(public, key.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    return public


def sign(folder: Path, key: Path) -> str:
    """Signs the evidence in a folder; returns the key's id. What is broken, or signed already, is refused."""
    envelope = folder / ENVELOPE
    if envelope.exists():
        raise EvidenceError(f"{envelope} exists: the evidence is signed already. Verify it, or remove the file first.")
    private = _private(key)
    payload = canonical(statement(folder, Evidence.load(folder)))
    id = key_id(private.public_key())
    signature = base64.b64encode(private.sign(encoded(payload))).decode()
    body = {"payloadType": TYPE, "payload": base64.b64encode(payload).decode()}
    write_json(envelope, {**body, "signatures": [{"keyid": id, "sig": signature}]})
    return id


def statement(folder: Path, evidence: Evidence) -> dict[str, Json]:
    """The in-toto statement: every file by SHA-256, and what is claimed."""
    return {
        "_type": STATEMENT,
        "subject": [{"name": name, "digest": {"sha256": digest}} for name, digest in digests(folder).items()],
        "predicateType": PREDICATE,
        "predicate": {
            "evidence": evidence.hash,
            "claims": [plain(claim) for claim in evidence.claims],
            "inputs": {name: entry.hash for name, entry in evidence.inputs.items()},
            "attempt": evidence.attempt,
            "versions": dict(evidence.versions),
        },
    }


def digests(folder: Path) -> dict[str, str]:
    """Relative path -> SHA-256 of every file that is signed."""
    found = {}
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink():
            raise EvidenceError(f"{path} is a link. Evidence holds plain files: put the file itself there.")
        if path.is_file() and name != ENVELOPE:
            with path.open("rb") as handle:
                found[name] = hashlib.file_digest(handle, "sha256").hexdigest()
    return found


def encoded(payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding of type and payload."""
    return b"DSSEv1 %d %s %d %s" % (len(TYPE), TYPE.encode(), len(payload), payload)


def verify(folder: Path, key: Path) -> dict[str, Json]:
    """The signed statement, where this key signed it and every file is as it was; EvidenceError says what is not."""
    from cryptography.exceptions import InvalidSignature

    path, public = folder / ENVELOPE, _public(key)
    try:
        told = json.loads(path.read_bytes())
        payload = base64.b64decode(told["payload"], validate=True)
        signatures = [base64.b64decode(entry["sig"], validate=True) for entry in told["signatures"]]
        kind = told["payloadType"]
    except FileNotFoundError:
        raise EvidenceError(f"{folder} is not signed: {ENVELOPE} is missing. Sign it with twinproof sign.") from None
    except (ValueError, KeyError, TypeError, OSError, RecursionError, binascii.Error) as problem:
        raise EvidenceError(f"{path} is no readable DSSE envelope ({problem!r}). Restore it.") from None
    good = False
    for signature in signatures if kind == TYPE else ():
        try:
            public.verify(signature, encoded(payload))
            good = True
        except InvalidSignature:
            continue  # another key may have signed too
    if not good:
        raise EvidenceError(
            f"{path} was not signed with the key {key_id(public)[:16]}, or was changed since. Do not trust it."
        )
    return _checked(folder, json.loads(payload))


def _checked(folder: Path, signed: Any) -> dict[str, Json]:
    if not isinstance(signed, dict) or (signed.get("_type"), signed.get("predicateType")) != (STATEMENT, PREDICATE):
        raise EvidenceError(f"{folder / ENVELOPE} is signed, but it is no statement about evidence. Do not trust it.")
    stated = {entry["name"]: entry["digest"]["sha256"] for entry in signed["subject"]}
    found = digests(folder)
    for name in sorted({*stated, *found}):
        if stated.get(name) != found.get(name):
            state = "was changed" if name in stated and name in found else "is missing" if name in stated else "is new"
            raise EvidenceError(f"{folder / name} {state} since the evidence was signed. Do not trust it.")
    told: dict[str, Json] = signed
    return told


def key_id(public: Ed25519PublicKey) -> str:
    """SHA-256 of the public key's bytes."""
    from cryptography.hazmat.primitives import serialization as form

    return hashlib.sha256(public.public_bytes(form.Encoding.Raw, form.PublicFormat.Raw)).hexdigest()


def _private(path: Path) -> Ed25519PrivateKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(path.read_bytes(), None)
    except (ValueError, TypeError, OSError) as problem:
        raise EvidenceError(f"{path} is no private key without a password ({problem}). Make one: --new-key.") from None
    if not isinstance(key, Ed25519PrivateKey):
        raise EvidenceError(f"{path} is no Ed25519 key. Make one: twinproof sign EVIDENCE --key {path} --new-key.")
    return key


def _public(path: Path) -> Ed25519PublicKey:
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_public_key

    try:
        key = load_pem_public_key(path.read_bytes())
    except (ValueError, OSError) as problem:
        raise EvidenceError(f"{path} is no public key in PEM ({problem}). Ask whoever signed for it.") from None
    if not isinstance(key, Ed25519PublicKey):
        raise EvidenceError(f"{path} is no Ed25519 public key. Ask whoever signed for it.")
    return key
