-- Orders on their way to a worker.
--
-- An order is a turn that somebody gave to a gateway. It stands here from the moment at which it was
-- acknowledged. The queue of PGMQ holds one message for each session that has work: that of its
-- oldest order, its head. The next one is sent in the transaction that ends the one before it. So a
-- session's turns come in order by construction, every message that a worker sees may be taken, and
-- the cost of taking one does not depend on how many wait: pgmq.read_grouped_head, which finds the
-- heads among all messages, takes time in proportion to their number.
--
-- Whoever changes a session's orders holds the lock on the session's row first. All times are of the
-- database's clock.

SELECT pgmq.create('openclaw_turns');
-- Turns that were begun and have to be taken over.
CREATE INDEX openclaw_turns_begun ON pgmq.q_openclaw_turns (vt) WHERE read_ct > 0;

CREATE TABLE orders (
  id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  session text NOT NULL REFERENCES sessions (id) ON DELETE CASCADE,
  turn text NOT NULL,
  agent text NOT NULL,
  state text NOT NULL DEFAULT 'waiting' CHECK (state IN ('waiting', 'running', 'done')),
  msg_id bigint,               -- its message, once it is its session's head
  read_ct integer,             -- the fence: the count at which its runner took the message
  entry text NOT NULL,         -- the gateway that it came to
  runner text,                 -- the gateway that has it, or had it last
  pin text,                    -- the only gateway that may run it
  watchers text[] NOT NULL,    -- the gateways that want to know what happens
  attempts integer NOT NULL DEFAULT 0,
  cancelled boolean NOT NULL DEFAULT false,
  body bytea NOT NULL,
  reply bytea,
  outcome text,
  events integer NOT NULL DEFAULT 0,
  given_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  taken_at timestamptz,
  done_at timestamptz,
  UNIQUE (session, turn)
);
CREATE INDEX orders_unfinished ON orders (session, id) WHERE state <> 'done';
CREATE INDEX orders_by_turn ON orders (turn);
CREATE INDEX orders_done ON orders (done_at) WHERE state = 'done';

CREATE TABLE order_events (
  order_id bigint NOT NULL REFERENCES orders (id) ON DELETE CASCADE,
  first integer NOT NULL,
  last integer NOT NULL,
  body bytea NOT NULL,
  PRIMARY KEY (order_id, last)
);

-- A gateway says now and then that it lives, what it runs, and how its MCP servers are.
CREATE TABLE gateways (
  id text PRIMARY KEY,
  started_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  seen_at timestamptz NOT NULL DEFAULT clock_timestamp(),
  facts jsonb NOT NULL
);

-- Sessions whose MCP servers live in one gateway alone, since their client brought them.
CREATE TABLE session_homes (
  session text PRIMARY KEY REFERENCES sessions (id) ON DELETE CASCADE,
  gateway text NOT NULL,
  servers text[] NOT NULL
);

CREATE FUNCTION send_order(p_order bigint) RETURNS void LANGUAGE sql AS $$
  UPDATE orders o
  SET msg_id = (SELECT pgmq.send(
    'openclaw_turns',
    jsonb_build_object('order', o.id),
    jsonb_build_object('x-pgmq-group', o.session, 'agent', o.agent, 'pin', o.pin)
  ))
  WHERE o.id = p_order
$$;

-- Ends one order and sends the next of its session; true where there is one.
CREATE FUNCTION end_order(p_order bigint, p_outcome text, p_reply bytea, p_events integer)
RETURNS boolean LANGUAGE plpgsql AS $$
DECLARE
  v_next bigint;
BEGIN
  UPDATE orders
  SET state = 'done', outcome = p_outcome, reply = p_reply, events = p_events, body = ''::bytea,
    done_at = clock_timestamp()
  WHERE id = p_order;
  SELECT min(o.id) INTO v_next FROM orders o
  WHERE o.session = (SELECT session FROM orders WHERE id = p_order) AND o.state <> 'done';
  IF v_next IS NULL THEN
    RETURN false;
  END IF;
  PERFORM send_order(v_next);
  RETURN true;
END
$$;

-- Takes an order in; the same one where the key came before. `id` is NULL where too many wait.
CREATE FUNCTION give_order(
  p_session text, p_turn text, p_agent text, p_entry text, p_body bytea, p_most integer,
  p_pin text, OUT id bigint, OUT created boolean, OUT ahead integer
) LANGUAGE plpgsql AS $$
DECLARE
  v_home text;
BEGIN
  PERFORM 1 FROM sessions s WHERE s.id = p_session FOR NO KEY UPDATE;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the session was deleted' USING ERRCODE = 'no_data_found';
  END IF;
  created := false;
  UPDATE orders o SET watchers = array_append(array_remove(o.watchers, p_entry), p_entry)
  WHERE o.session = p_session AND o.turn = p_turn
  RETURNING o.id INTO id;
  SELECT count(*) INTO ahead FROM orders o WHERE o.session = p_session AND o.state <> 'done';
  IF id IS NOT NULL OR ahead >= p_most THEN
    RETURN;
  END IF;
  created := true;
  SELECT h.gateway INTO v_home FROM session_homes h WHERE h.session = p_session;
  INSERT INTO orders (session, turn, agent, entry, pin, watchers, body)
  VALUES (p_session, p_turn, p_agent, p_entry, coalesce(p_pin, v_home), ARRAY[p_entry], p_body)
  RETURNING orders.id INTO id;
  IF ahead = 0 THEN
    PERFORM send_order(id);
  END IF;
END
$$;

-- Whether a gateway may take that message now.
CREATE FUNCTION may_take(
  p_headers jsonb, p_vt timestamptz, p_gateway text, p_ready text[],
  p_patience double precision, p_dead double precision
) RETURNS boolean LANGUAGE sql STABLE AS $$
  SELECT (p_headers ->> 'agent' = ANY (p_ready)
      OR p_vt <= clock_timestamp() - make_interval(secs => p_patience))
    AND (p_headers ->> 'pin' IS NULL OR p_headers ->> 'pin' = p_gateway OR NOT EXISTS (
      SELECT 1 FROM gateways g WHERE g.id = p_headers ->> 'pin'
        AND g.seen_at > clock_timestamp() - make_interval(secs => p_dead)))
$$;

-- Up to p_most heads for this gateway, each leased for p_lease seconds: first those whose gateway
-- stopped, then those that nobody had yet.
--
-- For p_patience seconds, a head is left to gateways where its agent's MCP servers are ready. One
-- that is pinned goes to its own gateway, or to any once that one is dead. Taking an order over
-- from a gateway that still lives, and was only too slow, is nothing that the turn is to blame for.
CREATE FUNCTION take_orders(
  p_gateway text, p_most integer, p_lease double precision, p_ready text[],
  p_patience double precision, p_dead double precision
) RETURNS SETOF orders LANGUAGE sql AS $$
  WITH begun AS (
    SELECT q.msg_id FROM pgmq.q_openclaw_turns q
    WHERE q.vt <= clock_timestamp() AND q.read_ct > 0
      AND may_take(q.headers, q.vt, p_gateway, p_ready, p_patience, p_dead)
    ORDER BY q.vt
    LIMIT p_most
    FOR UPDATE SKIP LOCKED
  ), fresh AS (
    SELECT q.msg_id FROM pgmq.q_openclaw_turns q
    WHERE q.vt <= clock_timestamp() AND q.read_ct = 0
      AND may_take(q.headers, q.vt, p_gateway, p_ready, p_patience, p_dead)
    ORDER BY q.vt
    LIMIT greatest(0, p_most - (SELECT count(*) FROM begun))
    FOR UPDATE SKIP LOCKED
  ), taken AS (
    UPDATE pgmq.q_openclaw_turns q
    SET vt = clock_timestamp() + make_interval(secs => p_lease), read_ct = q.read_ct + 1
    -- As an array: of a join, the planner expects too much, and reads whole tables.
    WHERE q.msg_id = ANY (ARRAY(SELECT msg_id FROM begun UNION ALL SELECT msg_id FROM fresh))
    RETURNING q.msg_id, q.read_ct, (q.message ->> 'order')::bigint AS id
  )
  UPDATE orders o
  SET state = 'running', runner = p_gateway, read_ct = taken.read_ct, taken_at = clock_timestamp(),
    attempts = o.attempts + CASE WHEN o.attempts > 0 AND EXISTS (
      SELECT 1 FROM gateways g WHERE g.id = o.runner
        AND g.seen_at > clock_timestamp() - make_interval(secs => p_dead / 3)
    ) THEN 0 ELSE 1 END
  FROM taken WHERE o.id = taken.id AND o.id = ANY (ARRAY(SELECT id FROM taken))
  RETURNING o.*
$$;

-- Lengthens leases. Returns those that still stand, and whether somebody wants them stopped.
CREATE FUNCTION renew_orders(p_messages bigint[], p_counts integer[], p_lease double precision)
RETURNS TABLE (msg_id bigint, cancelled boolean) LANGUAGE sql AS $$
  WITH renewed AS (
    UPDATE pgmq.q_openclaw_turns q SET vt = clock_timestamp() + make_interval(secs => p_lease)
    FROM unnest(p_messages, p_counts) AS held (msg_id, read_ct)
    WHERE q.msg_id = held.msg_id AND q.read_ct = held.read_ct
    RETURNING q.msg_id, (q.message ->> 'order')::bigint AS id
  )
  SELECT renewed.msg_id, o.cancelled FROM renewed JOIN orders o ON o.id = renewed.id
$$;

-- Ends an order that a worker holds, in the transaction that ends its turn. Where the worker no
-- longer holds it, nothing of that transaction may stand.
CREATE FUNCTION finish_order(
  p_order bigint, p_message bigint, p_count integer, p_outcome text, p_reply bytea, p_events integer
) RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  DELETE FROM pgmq.q_openclaw_turns q WHERE q.msg_id = p_message AND q.read_ct = p_count;
  IF NOT FOUND THEN
    IF EXISTS (SELECT 1 FROM orders WHERE id = p_order AND state = 'done' AND read_ct = p_count) THEN
      RETURN false;  -- it was committed, and the answer to that was lost with the connection
    END IF;
    RAISE EXCEPTION 'order % is no longer held', p_order USING ERRCODE = 'OC001';
  END IF;
  RETURN end_order(p_order, p_outcome, p_reply, p_events);
END
$$;

-- Gives an order back, for others to take at once. `p_blameless`: it does not count as an attempt.
CREATE FUNCTION return_order(p_order bigint, p_message bigint, p_count integer, p_blameless boolean)
RETURNS boolean LANGUAGE plpgsql AS $$
BEGIN
  UPDATE pgmq.q_openclaw_turns q SET vt = clock_timestamp()
  WHERE q.msg_id = p_message AND q.read_ct = p_count;
  IF NOT FOUND THEN
    RETURN false;
  END IF;
  UPDATE orders SET attempts = attempts - p_blameless::integer WHERE id = p_order;
  RETURN true;
END
$$;

-- Stops an order. One that nobody took yet ends here; otherwise its runner is returned, to be told.
CREATE FUNCTION cancel_order(
  p_order bigint, p_reply bytea, OUT known boolean, OUT runner text, OUT more boolean
) LANGUAGE plpgsql AS $$
DECLARE
  v_order orders;
BEGIN
  PERFORM 1 FROM sessions s JOIN orders o ON o.session = s.id WHERE o.id = p_order
  FOR NO KEY UPDATE OF s;
  known := false;
  more := false;
  UPDATE orders o SET cancelled = true WHERE o.id = p_order AND o.state = 'running'
  RETURNING o.runner INTO runner;
  IF FOUND THEN
    known := true;
    RETURN;
  END IF;
  SELECT * INTO v_order FROM orders o WHERE o.id = p_order AND o.state = 'waiting';
  IF NOT FOUND THEN
    RETURN;
  END IF;
  known := true;
  IF v_order.msg_id IS NOT NULL THEN
    DELETE FROM pgmq.q_openclaw_turns q WHERE q.msg_id = v_order.msg_id AND q.read_ct = 0;
    IF NOT FOUND THEN  -- it was taken while we waited
      UPDATE orders o SET cancelled = true WHERE o.id = p_order RETURNING o.runner INTO runner;
      RETURN;
    END IF;
    more := end_order(p_order, 'cancelled', p_reply, 0);
    RETURN;
  END IF;
  UPDATE orders SET state = 'done', outcome = 'cancelled', reply = p_reply, body = ''::bytea,
    done_at = clock_timestamp()
  WHERE id = p_order;
END
$$;
