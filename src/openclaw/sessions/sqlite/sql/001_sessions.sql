CREATE TABLE sessions (
  row INTEGER PRIMARY KEY AUTOINCREMENT,
  id TEXT NOT NULL UNIQUE,
  agent TEXT NOT NULL,
  key TEXT NOT NULL,
  title TEXT,
  created_ms INTEGER NOT NULL,
  updated_ms INTEGER NOT NULL,
  messages INTEGER NOT NULL DEFAULT 0,
  seq INTEGER NOT NULL DEFAULT 0,
  input_tokens INTEGER NOT NULL DEFAULT 0,
  output_tokens INTEGER NOT NULL DEFAULT 0,
  cache_read_tokens INTEGER NOT NULL DEFAULT 0,
  cache_write_tokens INTEGER NOT NULL DEFAULT 0,
  requests INTEGER NOT NULL DEFAULT 0,
  tool_calls INTEGER NOT NULL DEFAULT 0,
  epoch INTEGER NOT NULL DEFAULT 0,
  summary_seq INTEGER NOT NULL DEFAULT 0,
  summarised INTEGER NOT NULL DEFAULT 0,
  UNIQUE (agent, key)
);
CREATE INDEX sessions_by_use ON sessions (updated_ms, row);
CREATE INDEX sessions_by_agent_and_use ON sessions (agent, updated_ms, row);
CREATE INDEX sessions_by_key ON sessions (key);
CREATE TABLE entries (
  row INTEGER PRIMARY KEY,
  session INTEGER NOT NULL REFERENCES sessions (row),
  seq INTEGER NOT NULL,
  turn TEXT,
  kind TEXT NOT NULL,
  at_ms INTEGER NOT NULL,
  call_id TEXT,
  text TEXT NOT NULL,
  data BLOB NOT NULL,
  details BLOB
);
CREATE UNIQUE INDEX entries_in_order ON entries (session, seq);
CREATE VIRTUAL TABLE words USING fts5 (
  text, content = 'entries', content_rowid = 'row', tokenize = "unicode61 remove_diacritics 2"
);
CREATE TABLE turns (
  session INTEGER NOT NULL REFERENCES sessions (row),
  id TEXT NOT NULL,
  state TEXT NOT NULL,
  started_ms INTEGER NOT NULL,
  finished_ms INTEGER,
  first_seq INTEGER NOT NULL,
  PRIMARY KEY (session, id)
) WITHOUT ROWID;
CREATE INDEX turns_unfinished ON turns (session, first_seq) WHERE state IN ('running', 'lost');
CREATE TABLE tickets (
  id INTEGER PRIMARY KEY AUTOINCREMENT,
  session INTEGER NOT NULL REFERENCES sessions (row),
  owner TEXT NOT NULL,
  expires REAL NOT NULL
);
CREATE INDEX tickets_in_order ON tickets (session, id);
