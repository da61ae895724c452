"""The tables of the cache; loaded only where a cache is made.

Any change here makes another layout: raise `cache.SCHEMA` with it, and the old file is made anew
from the notes.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from .sql import Connection

TABLES = """
CREATE TABLE meta(key TEXT PRIMARY KEY, value TEXT) WITHOUT ROWID;
-- Every record line we understand, byte for byte. scope: 1 team, 2 private, 3 both.
CREATE TABLE line(n INTEGER PRIMARY KEY, version BLOB NOT NULL UNIQUE, memory BLOB NOT NULL, op TEXT
  NOT NULL, scope INTEGER NOT NULL, raw BLOB NOT NULL);
CREATE INDEX line_memory ON line(memory);
CREATE INDEX line_purge ON line(op) WHERE op = 'purge';
CREATE INDEX line_receipt ON line(op) WHERE op = 'receipt';
CREATE INDEX line_suggest ON line(op) WHERE op = 'suggest';
CREATE INDEX line_verdict ON line(op) WHERE op = 'verdict';
CREATE INDEX line_calibration ON line(op) WHERE op = 'calibration';
CREATE INDEX line_feedback ON line(op) WHERE op = 'feedback';
-- at: the commit from which on it counts that line `by` takes another memory's version away, ""
-- where the line does not say.
CREATE TABLE cover(version BLOB NOT NULL, by INTEGER NOT NULL, at TEXT NOT NULL, PRIMARY
  KEY(version, by)) WITHOUT ROWID;
CREATE INDEX cover_at ON cover(at) WHERE at <> '';
-- Those that count: without what a `restore` of the covered memory takes back (`fold.Covers`). A
-- restore stands in `cover` too, as what covers the record that it names, but hides no text.
CREATE VIEW effective_cover AS SELECT c.version, c.by, c.at FROM cover c WHERE NOT EXISTS
  (SELECT 1 FROM line b WHERE b.n = c.by AND (b.op = 'restore' OR EXISTS
  (SELECT 1 FROM cover r CROSS JOIN line back ON back.n = r.by AND back.op = 'restore'
  CROSS JOIN line own ON own.version = c.version AND own.memory = back.memory
  WHERE r.version = b.version)));
-- Superseded memories that count at a HEAD all the same (`reinstated`): their rows say active. And
-- the newest line when somebody last looked from that HEAD, -1: look again.
CREATE TABLE reinstated(head TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY(head, row)) WITHOUT
  ROWID;
CREATE TABLE reinstated_head(head TEXT PRIMARY KEY, n INTEGER NOT NULL) WITHOUT ROWID;
-- New commits in the place of old ones: `move` records, and lines found at a commit they do not
-- name (a rewrite copied the note).
CREATE TABLE move(old TEXT NOT NULL, new TEXT NOT NULL, n INTEGER NOT NULL, PRIMARY KEY(old, new,
  n)) WITHOUT ROWID;
CREATE INDEX move_new ON move(new);
-- Patch-ids of commits that memories are about, as records state them; uses: how many records say
-- the same.
CREATE TABLE patch_mark(commit_id TEXT NOT NULL, patch TEXT NOT NULL, base TEXT NOT NULL,
  branch_patch TEXT NOT NULL, uses INTEGER NOT NULL, PRIMARY KEY(commit_id, patch, base,
  branch_patch)) WITHOUT ROWID;
-- What git said, kept because asking again takes long: patch-ids of commits and of branches (empty:
-- there is none), and commits that carry the change of another.
CREATE TABLE patch_id(commit_id BLOB PRIMARY KEY, id BLOB NOT NULL) WITHOUT ROWID;
CREATE INDEX patch_id_id ON patch_id(id) WHERE id <> x'';
CREATE TABLE branch_patch_id(tip BLOB NOT NULL, base BLOB NOT NULL, id BLOB NOT NULL, PRIMARY
  KEY(tip, base)) WITHOUT ROWID;
CREATE TABLE equivalent_commit(commit_id TEXT NOT NULL, other TEXT NOT NULL, PRIMARY KEY(commit_id,
  other)) WITHOUT ROWID;
-- Which commits removed a path, and what git says they renamed it to (now: "" for nothing). path
-- '': all that this commit removed is here (`path_removals`).
CREATE TABLE path_removal(path TEXT NOT NULL, commit_id BLOB NOT NULL, now TEXT NOT NULL, PRIMARY
  KEY(path, commit_id)) WITHOUT ROWID;
CREATE INDEX path_removal_commit ON path_removal(commit_id, path) WHERE now <> '';
-- The paths that active memories name: one row for all memories that noted the same path at the
-- same commit (anchor, "" for none). name: without slashes at its end, slashes: how many it had.
-- And which of them a memory names; place: its place in the record.
CREATE TABLE noted_path(number INTEGER PRIMARY KEY, anchor TEXT NOT NULL, name TEXT NOT NULL,
  slashes INTEGER NOT NULL, blob TEXT NOT NULL, lines TEXT NOT NULL, UNIQUE(anchor, name, slashes,
  blob, lines));
CREATE TABLE memory_path(row INTEGER NOT NULL, place INTEGER NOT NULL, number INTEGER NOT NULL,
  PRIMARY KEY(row, place)) WITHOUT ROWID;
CREATE INDEX memory_path_number ON memory_path(number);
-- States as seen from the HEADs of the worktrees (`anchor_state_store`, `path_state_store`). blob:
-- of lines of a file, its object at HEAD; they are not looked for again while it stays.
CREATE TABLE head(slot INTEGER PRIMARY KEY, commit_id TEXT NOT NULL UNIQUE);
CREATE TABLE anchor_state(slot INTEGER NOT NULL, anchor TEXT NOT NULL, state TEXT NOT NULL,
  commit_id TEXT NOT NULL, into_commit TEXT NOT NULL, reason TEXT NOT NULL, PRIMARY KEY(slot,
  anchor)) WITHOUT ROWID;
CREATE TABLE path_state(slot INTEGER NOT NULL, number INTEGER NOT NULL, state TEXT NOT NULL, now
  TEXT NOT NULL, reason TEXT NOT NULL, lines TEXT NOT NULL, blob TEXT NOT NULL, PRIMARY KEY(slot,
  number)) WITHOUT ROWID;
CREATE INDEX path_state_now ON path_state(slot, now) WHERE now <> '';
-- What private records say of use: what a session did with a memory (`confidence.rows`; id: its
-- short name, but the id where a person said it); and what that adds up to (`usage_store`).
CREATE TABLE usage_record(id TEXT NOT NULL, session TEXT NOT NULL, how TEXT NOT NULL,
  number INTEGER NOT NULL, PRIMARY KEY(id, session, how)) WITHOUT ROWID;
CREATE TABLE confidence(id TEXT PRIMARY KEY, value REAL NOT NULL, used REAL NOT NULL,
  ignored REAL NOT NULL, against INTEGER NOT NULL, vain INTEGER NOT NULL) WITHOUT ROWID;
-- Whether the signature of line n holds, and whose it is.
CREATE TABLE signature(n INTEGER PRIMARY KEY, state TEXT NOT NULL, signer TEXT NOT NULL);
-- One row per version shown, or one for a memory that is hidden. status: 0 active, 1 superseded,
-- 2 forgotten. nth: 0 for the version to show first, 1 and more for its alternatives.
CREATE TABLE memory(row INTEGER PRIMARY KEY, nth INTEGER NOT NULL, id TEXT NOT NULL, line INTEGER
  NOT NULL, status INTEGER NOT NULL, scope INTEGER NOT NULL, type TEXT, at TEXT, author TEXT,
  source TEXT, anchor TEXT, digest BLOB, confidence REAL);
CREATE INDEX memory_id ON memory(id);
CREATE INDEX memory_nth ON memory(id) WHERE nth > 0;
-- Rows whose text no single line has (`unite`): the numbers of all lines it is made of, `line`
-- among them, as JSON; the text as a record, and the name of its bytes.
CREATE TABLE united(row INTEGER PRIMARY KEY, lines TEXT NOT NULL, digest BLOB NOT NULL, raw BLOB NOT
  NULL);
CREATE INDEX memory_line ON memory(line);
CREATE INDEX memory_anchor ON memory(anchor);
CREATE INDEX memory_source ON memory(source) WHERE source IS NOT NULL;
CREATE INDEX memory_digest ON memory(digest);
-- The newest of all and of a kind. With the id, which orders memories of one second: an import
-- makes thousands of them.
CREATE INDEX memory_at ON memory(at DESC, id) WHERE status = 0;
CREATE INDEX memory_type ON memory(type, at DESC, id) WHERE status = 0;
CREATE INDEX memory_author ON memory(author, at DESC, id) WHERE status = 0;
CREATE INDEX memory_hidden ON memory(status) WHERE status > 0;
CREATE TABLE label(kind TEXT NOT NULL, value TEXT NOT NULL, row INTEGER NOT NULL, PRIMARY KEY(kind,
  value, row)) WITHOUT ROWID;
CREATE VIRTUAL TABLE fts USING fts5(title, body, extra, tokenize='ascii');
CREATE TABLE term(word TEXT PRIMARY KEY, df INTEGER NOT NULL) WITHOUT ROWID;
-- Vectors of the packaged table, of the encoder, or of the model a user chose, under the name of
-- their space, and what is read of all of them, in chunks (`model_vectors`). square: the sum of a
-- vector's squares.
CREATE TABLE model_vector(space TEXT NOT NULL, row INTEGER NOT NULL, v BLOB NOT NULL, square INTEGER
  NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(space, row)) WITHOUT ROWID;
CREATE TABLE model_code(space TEXT NOT NULL, chunk INTEGER NOT NULL, held BLOB NOT NULL, codes BLOB
  NOT NULL, company BLOB NOT NULL, crc INTEGER NOT NULL, PRIMARY KEY(space, chunk)) WITHOUT ROWID;
"""


def make(db: Connection, application: int, layout: int) -> None:
    """The empty tables of this layout, in one transaction."""
    db.execute("BEGIN IMMEDIATE")
    for statement in TABLES.split(";\n"):
        db.execute(statement)
    db.execute("INSERT INTO fts(fts, rank) VALUES('automerge', 8)")
    db.execute(f"PRAGMA application_id={application}")
    db.execute(f"PRAGMA user_version={layout}")
    db.execute("COMMIT")
