"""Signatures: who signed, what was signed, and that nothing changed since."""

from __future__ import annotations

import base64
import json

import pytest
from cryptography.hazmat.primitives import serialization as form
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from twinproof import cli_evidence
from twinproof.evidence.audit import audit
from twinproof.evidence.sign import ENVELOPE, encoded, new_key, sign, verify
from twinproof.nouns.errors import EvidenceError
from twinproof.nouns.evidence import Evidence


@pytest.fixture
def key(tmp_path):
    new_key(tmp_path / "my.key")
    return tmp_path / "my.key"


def test_what_was_signed_is_verified_with_the_public_key_alone(copied, key, capsys):
    assert cli_evidence.sign(cli_evidence.Sign(copied, key)) == 0
    public = key.with_name("my.key.pub")
    assert cli_evidence.verify(cli_evidence.Verify(copied, public)) == 0
    assert "files are as they were" in capsys.readouterr().out
    told = verify(copied, public)
    assert told["_type"] == "https://in-toto.io/Statement/v1"
    assert told["predicate"]["evidence"] == Evidence.load(copied).hash
    assert audit(copied).ok
    assert any("who signed it" in finding.text for finding in audit(copied).findings)


def test_the_envelope_is_one_that_any_dsse_tool_reads(copied, key):
    """Checked here by hand, with nothing of ours but the key."""
    sign(copied, key)
    envelope = json.loads((copied / ENVELOPE).read_text())
    payload = base64.b64decode(envelope["payload"])
    kind = envelope["payloadType"].encode()
    message = b"DSSEv1 " + str(len(kind)).encode() + b" " + kind + b" " + str(len(payload)).encode() + b" " + payload
    public = form.load_pem_public_key(key.with_name("my.key.pub").read_bytes())
    public.verify(base64.b64decode(envelope["signatures"][0]["sig"]), message)
    assert encoded(payload) == message
    names = {entry["name"] for entry in json.loads(payload)["subject"]}
    assert {"evidence.json", "trials.parquet", "report.html"} < names


def test_the_key_is_its_owners_alone_and_never_overwritten(tmp_path, key):
    assert key.stat().st_mode & 0o777 == 0o600
    with pytest.raises(EvidenceError, match="No key is overwritten"):
        new_key(key)


def test_any_change_after_signing_is_named(copied, key):
    sign(copied, key)
    public = key.with_name("my.key.pub")
    with pytest.raises(EvidenceError, match="signed already"):
        sign(copied, key)
    content = (copied / "report.md").read_bytes()
    (copied / "report.md").write_bytes(content + b" ")
    with pytest.raises(EvidenceError, match="report.md was changed since the evidence was signed"):
        verify(copied, public)
    (copied / "report.md").unlink()
    with pytest.raises(EvidenceError, match="report.md is missing since"):
        verify(copied, public)
    (copied / "report.md").write_bytes(content)
    (copied / "more.txt").write_text("x")
    with pytest.raises(EvidenceError, match="more.txt is new since"):
        verify(copied, public)
    (copied / "more.txt").unlink()
    (copied / "more.txt").symlink_to(key)
    with pytest.raises(EvidenceError, match="is a link"):
        verify(copied, public)


def test_another_key_or_a_changed_envelope_is_refused(copied, key, tmp_path):
    sign(copied, key)
    other = new_key(tmp_path / "other.key")
    with pytest.raises(EvidenceError, match="was not signed with the key"):
        verify(copied, other)
    path = copied / ENVELOPE
    told = json.loads(path.read_text())
    statement = json.loads(base64.b64decode(told["payload"]))
    statement["predicate"]["claims"] = []
    path.write_text(json.dumps({**told, "payload": base64.b64encode(json.dumps(statement).encode()).decode()}))
    with pytest.raises(EvidenceError, match="or was changed since"):
        verify(copied, key.with_name("my.key.pub"))
    path.write_text("{}")
    with pytest.raises(EvidenceError, match="no readable DSSE envelope"):
        verify(copied, other)
    path.unlink()
    with pytest.raises(EvidenceError, match="is not signed"):
        verify(copied, other)


def test_something_else_signed_with_the_same_key_is_no_evidence(copied, key):
    payload = json.dumps({"_type": "https://in-toto.io/Statement/v1", "predicateType": "other"}).encode()
    private = form.load_pem_private_key(key.read_bytes(), None)
    signature = base64.b64encode(private.sign(encoded(payload))).decode()
    told = {"payloadType": "application/vnd.in-toto+json", "payload": base64.b64encode(payload).decode()}
    (copied / ENVELOPE).write_text(json.dumps({**told, "signatures": [{"sig": signature}]}))
    with pytest.raises(EvidenceError, match="is no statement about evidence"):
        verify(copied, key.with_name("my.key.pub"))


def test_keys_of_another_kind_are_refused(copied, tmp_path):
    strange = X25519PrivateKey.generate()
    secret, public = tmp_path / "x.key", tmp_path / "x.pub"
    secret.write_bytes(strange.private_bytes(form.Encoding.PEM, form.PrivateFormat.PKCS8, form.NoEncryption()))
    public.write_bytes(strange.public_key().public_bytes(form.Encoding.PEM, form.PublicFormat.SubjectPublicKeyInfo))
    with pytest.raises(EvidenceError, match="is no Ed25519 key"):
        sign(copied, secret)
    with pytest.raises(EvidenceError, match="is no Ed25519 public key"):
        verify(copied, public)
    locked = Ed25519PrivateKey.generate().private_bytes(
        form.Encoding.PEM, form.PrivateFormat.PKCS8, form.BestAvailableEncryption(b"x")
    )
    secret.write_bytes(locked)
    with pytest.raises(EvidenceError, match="no private key without a password"):
        sign(copied, secret)
    with pytest.raises(EvidenceError, match="no public key in PEM"):
        verify(copied, secret)


def test_broken_evidence_is_not_signed(copied, key, capsys):
    (copied / "trials.parquet").write_bytes(b"")
    with pytest.raises(EvidenceError, match="trials.parquet was changed"):
        sign(copied, key)
    config = cli_evidence.Sign(copied, key.with_name("new.key"), new_key=True)
    with pytest.raises(EvidenceError, match="trials.parquet was changed"):
        cli_evidence.sign(config)
    assert "new.key.pub: the public half" in capsys.readouterr().out
