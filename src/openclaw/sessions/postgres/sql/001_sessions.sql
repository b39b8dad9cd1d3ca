CREATE TABLE sessions (
  row bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  id text NOT NULL UNIQUE,
  agent text NOT NULL,
  key text NOT NULL,
  -- Digests: an index cannot hold every key that is allowed.
  name_digest bytea NOT NULL UNIQUE,
  key_digest bytea NOT NULL,
  title text,
  created_ms bigint NOT NULL,
  updated_ms bigint NOT NULL,
  messages bigint NOT NULL DEFAULT 0,
  seq bigint NOT NULL DEFAULT 0,
  input_tokens bigint NOT NULL DEFAULT 0,
  output_tokens bigint NOT NULL DEFAULT 0,
  cache_read_tokens bigint NOT NULL DEFAULT 0,
  cache_write_tokens bigint NOT NULL DEFAULT 0,
  requests bigint NOT NULL DEFAULT 0,
  tool_calls bigint NOT NULL DEFAULT 0,
  epoch bigint NOT NULL DEFAULT 0,
  summary_seq bigint NOT NULL DEFAULT 0,
  summarised bigint NOT NULL DEFAULT 0
) WITH (fillfactor = 80);
CREATE INDEX sessions_by_use ON sessions (updated_ms, row);
CREATE INDEX sessions_by_agent_and_use ON sessions (agent, updated_ms, row);
CREATE INDEX sessions_by_key ON sessions (key_digest);

CREATE TABLE entries (
  session bigint NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
  seq bigint NOT NULL,
  turn text,
  kind text NOT NULL,
  at_ms bigint NOT NULL,
  call_id text,
  text text NOT NULL,
  -- JSON as it was written: jsonb refuses characters that models do produce.
  data bytea NOT NULL,
  details bytea,
  -- Made by the program, so that a search does not depend on the locale of the database.
  words tsvector,
  PRIMARY KEY (session, seq)
);
CREATE INDEX entries_by_word ON entries USING gin (words);

CREATE TABLE turns (
  session bigint NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
  id text NOT NULL,
  state text NOT NULL,
  started_ms bigint NOT NULL,
  finished_ms bigint,
  first_seq bigint NOT NULL,
  PRIMARY KEY (session, id)
);
CREATE INDEX turns_unfinished ON turns (session, first_seq) WHERE state IN ('running', 'lost');

-- Who holds a session and who waits for it.
CREATE TABLE tickets (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session bigint NOT NULL REFERENCES sessions (row) ON DELETE CASCADE,
  token text NOT NULL UNIQUE,
  owner integer NOT NULL,
  holding boolean NOT NULL DEFAULT false,
  entitled boolean NOT NULL DEFAULT false,
  expires timestamptz NOT NULL,
  missing_since timestamptz
);
CREATE INDEX tickets_in_order ON tickets (session, id);

-- Names a process by an advisory lock that it holds on a connection of its own.
CREATE SEQUENCE owners AS integer CYCLE;
