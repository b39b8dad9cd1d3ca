-- Small records besides sessions, such as tasks. Each has a revision, so that two writers notice each other.
CREATE TABLE documents (
  kind text NOT NULL,
  id text NOT NULL,
  rev bigint NOT NULL,
  written_ms bigint NOT NULL,
  expires_ms bigint NOT NULL,
  data bytea NOT NULL,
  PRIMARY KEY (kind, id)
);
CREATE INDEX documents_by_age ON documents (kind, written_ms);
CREATE INDEX documents_by_end ON documents (expires_ms);
