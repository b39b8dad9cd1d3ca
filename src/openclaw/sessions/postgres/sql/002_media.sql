-- Attachments, named by the SHA-256 of their content. Every gateway can read them here.
CREATE TABLE media (
  session bigint NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
  digest text NOT NULL,
  data bytea NOT NULL,
  kept_at timestamptz NOT NULL DEFAULT now(),
  PRIMARY KEY (session, digest)
);
-- Images are compressed already.
ALTER TABLE media ALTER COLUMN data SET STORAGE EXTERNAL;
