CREATE TABLE documents (
  kind TEXT NOT NULL,
  id TEXT NOT NULL,
  rev INTEGER NOT NULL,
  written_ms INTEGER NOT NULL,
  expires_ms INTEGER NOT NULL,
  data BLOB NOT NULL,
  PRIMARY KEY (kind, id)
);
CREATE INDEX documents_by_age ON documents (kind, written_ms);
CREATE INDEX documents_by_end ON documents (expires_ms);
