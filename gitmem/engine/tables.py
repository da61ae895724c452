"""The tables of the cache. Any change makes another layout: raise `cache.SCHEMA` with it, and the old file is made anew from the notes."""

from __future__ import annotations

TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
-- Every record line we understand, byte for byte. scope: 1 team, 2 private, 3 both.
CREATE TABLE line(n INTEGER PRIMARY KEY, version BLOB NOT NULL UNIQUE, memory BLOB NOT NULL, op TEXT NOT NULL, scope INTEGER NOT NULL, raw BLOB NOT NULL);
CREATE INDEX line_memory ON line(memory);
CREATE INDEX line_purge ON line(op) WHERE op = 'purge';
CREATE TABLE cover(version BLOB NOT NULL, by INTEGER NOT NULL, PRIMARY KEY(version, by)) WITHOUT ROWID;
-- New commits in the place of old ones: `move` records, and lines found at a commit they do not name (a rewrite copied the note).
CREATE TABLE move(old TEXT NOT NULL, new TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(old, new, n)) WITHOUT ROWID;
-- Marks of commits that memories are about; uses: how many records say the same.
CREATE TABLE anchor(commit_id TEXT NOT NULL, patch TEXT NOT NULL, base TEXT NOT NULL, branch_patch TEXT NOT NULL, uses INTEGER NOT NULL,
  PRIMARY KEY(commit_id, patch, base, branch_patch)) WITHOUT ROWID;
-- What git said, kept because asking again takes long; made anew where it is missing. Patch-ids of commits and of branches
-- (empty: there is none), commits that carry the change of an anchor, and the revision in whose history an anchor was sought in vain.
CREATE TABLE patch(commit_id BLOB PRIMARY KEY, id BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX patch_id ON patch(id) WHERE id <> x'';
CREATE TABLE branch(tip BLOB NOT NULL, base BLOB NOT NULL, id BLOB NOT NULL, PRIMARY KEY(tip, base)) WITHOUT ROWID;
CREATE TABLE twin(commit_id TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY(commit_id, other)) WITHOUT ROWID;
CREATE TABLE sought(commit_id TEXT PRIMARY KEY, head TEXT NOT NULL) WITHOUT ROWID;
-- Where anchors stand as seen from the HEADs of the worktrees, for those who have no time to ask git (`standing`).
CREATE TABLE head(slot INTEGER PRIMARY KEY, commit_id TEXT NOT NULL UNIQUE);
CREATE TABLE stand(slot INTEGER NOT NULL, anchor TEXT NOT NULL, state TEXT NOT NULL, commit_id TEXT NOT NULL, into_commit TEXT NOT NULL, reason TEXT NOT NULL,
  PRIMARY KEY(slot, anchor)) WITHOUT ROWID;
-- Whether the signature of line n holds, and whose it is.
CREATE TABLE signature(n INTEGER PRIMARY KEY, state TEXT NOT NULL, signer TEXT NOT NULL);
-- One row per version shown, or one for a memory that is hidden. status: 0 active, 1 superseded, 2 forgotten.
CREATE TABLE memory(row INTEGER PRIMARY KEY, id TEXT NOT NULL, line INTEGER NOT NULL, status INTEGER NOT NULL, scope INTEGER NOT NULL,
  type TEXT, at TEXT, author TEXT, phase TEXT, source TEXT, anchor TEXT, digest BLOB);
CREATE INDEX memory_id ON memory(id);
CREATE INDEX memory_line ON memory(line);
CREATE INDEX memory_source ON memory(source) WHERE source IS NOT NULL;
CREATE INDEX memory_digest ON memory(digest);
CREATE INDEX memory_at ON memory(at) WHERE status = 0;
CREATE INDEX memory_type ON memory(type, at) WHERE status = 0;
CREATE INDEX memory_hidden ON memory(status) WHERE status > 0;
CREATE TABLE label(kind TEXT NOT NULL, value TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY(kind, value, row)) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(title, body, extra, content='', tokenize='ascii');
CREATE TABLE term(word TEXT PRIMARY KEY, df INTEGER NOT NULL) WITHOUT ROWID;
CREATE TABLE vector(row INTEGER PRIMARY KEY, v BLOB NOT NULL, crc INTEGER NOT NULL);
CREATE TABLE code(chunk INTEGER PRIMARY KEY, codes BLOB NOT NULL, crc INTEGER NOT NULL);
"""
