-- The tables of claude-mem's SessionStore (read in August 2026), with rows of three projects.
CREATE TABLE schema_versions (id INTEGER PRIMARY KEY, version INTEGER UNIQUE NOT NULL, applied_at TEXT NOT NULL);
CREATE TABLE sdk_sessions (
  id INTEGER PRIMARY KEY AUTOINCREMENT, content_session_id TEXT NOT NULL, memory_session_id TEXT UNIQUE,
  project TEXT NOT NULL, platform_source TEXT NOT NULL DEFAULT 'claude', user_prompt TEXT,
  started_at TEXT NOT NULL, started_at_epoch INTEGER NOT NULL, completed_at TEXT,
  completed_at_epoch INTEGER, status TEXT NOT NULL DEFAULT 'active'
);
CREATE TABLE observations (
  id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL, text TEXT,
  type TEXT NOT NULL, title TEXT, subtitle TEXT, facts TEXT, narrative TEXT, concepts TEXT,
  files_read TEXT, files_modified TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, content_hash TEXT,
  generated_by_model TEXT, relevance_count INTEGER DEFAULT 0, merged_into_project TEXT,
  agent_type TEXT, agent_id TEXT, metadata TEXT
);
CREATE TABLE session_summaries (
  id INTEGER PRIMARY KEY AUTOINCREMENT, memory_session_id TEXT NOT NULL, project TEXT NOT NULL,
  request TEXT, investigated TEXT, learned TEXT, completed TEXT, next_steps TEXT, files_read TEXT,
  files_edited TEXT, notes TEXT, prompt_number INTEGER, discovery_tokens INTEGER DEFAULT 0,
  created_at TEXT NOT NULL, created_at_epoch INTEGER NOT NULL, merged_into_project TEXT
);
INSERT INTO observations (memory_session_id, project, type, title, subtitle, facts, narrative, concepts, files_read, files_modified, created_at, created_at_epoch) VALUES
  ('s-1', 'shop', 'decision', 'Orders live in PostgreSQL', 'One transaction for orders and invoices', '["Orders and invoices share a transaction", "MongoDB was tried for a week"]', 'The shop keeps orders in PostgreSQL because an order and its invoice must commit together.', '["trade-off", "why-it-exists"]', '["README.md"]', '["db/orders.py"]', '2026-03-01T10:00:00.000Z', 1772359200000),
  ('s-1', 'shop', 'security_alert', 'The webhook trusted its sender', NULL, '["Signatures were never checked"]', NULL, '[]', 'api/webhook.py', '[]', '2026-03-01T11:00:00.000Z', 1772362800000),
  ('s-2', 'shop/wt-fast', 'bugfix', 'Retries doubled the charge', NULL, '[]', 'The retry sent a new idempotency key each time.', NULL, NULL, '["../elsewhere/x.py"]', '2026-03-02T10:00:00.000Z', 1772445600000),
  ('s-3', 'blog', 'discovery', 'Not of the shop', NULL, '[]', 'The blog builds with a static generator.', '[]', '[]', '[]', '2026-03-03T10:00:00.000Z', 1772532000000),
  ('s-1', 'shop', 'discovery', 'A key in a log', NULL, '[]', 'The log printed @TOKEN@ at start.', '[]', '[]', '[]', '2026-03-03T11:00:00.000Z', 1772535600000),
  ('s-1', 'shop', 'change', NULL, NULL, '[]', '', '[]', '[]', '[]', '2026-03-03T12:00:00.000Z', 1772539200000);
INSERT INTO session_summaries (memory_session_id, project, request, investigated, learned, completed, next_steps, files_edited, created_at, created_at_epoch) VALUES
  ('s-1', 'shop', 'Make checkout survive a retry', 'The payment client', 'The provider forgets keys after a day', 'Keys are stored with the order', 'Watch the error rate', '["pay/client.py"]', '2026-03-01T12:00:00.000Z', 1772366400000);
