/* The gateway's interface. The token lives in this browser's storage and in one header. */

const KEY = "openclaw.token";

/** What went wrong: `status` is the HTTP status (0 if the gateway was not reached), `kind` the gateway's. */
export class ApiError extends Error {
  constructor(status, message, { kind = "", hint = "" } = {}) {
    super(message);
    this.status = status;
    this.kind = kind;
    this.hint = hint;
  }
}

let token = null;
let refused = () => {};

function storage(action) {
  try {
    return action(localStorage);
  } catch {
    return null; // storage may be disabled; the token then lasts until a reload
  }
}

/** Read the stored token, and set what to do when one is refused. */
export function openApi(onRefused) {
  token = storage((store) => store.getItem(KEY));
  refused = onRefused;
}

/** Use this token from now on. */
export function logIn(value) {
  token = value;
  storage((store) => store.setItem(KEY, value));
}

/** Exchange a one-time link's code for a token. */
export async function redeem(code) {
  logOut();
  const { token: given } = await call("POST", "/api/login", { code });
  logIn(given);
}

/** Forget the token. */
export function logOut() {
  token = null;
  storage((store) => store.removeItem(KEY));
}

/** Whether there is a token to forget. */
export function hasToken() {
  return token !== null;
}

async function send(method, path, { body, signal } = {}) {
  const headers = {};
  if (token !== null) headers.authorization = `Bearer ${token}`;
  if (body !== undefined) headers["content-type"] = "application/json";
  let answer;
  try {
    answer = await fetch(path, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
      signal,
      cache: "no-store",
      credentials: "omit",
      redirect: "error",
      referrerPolicy: "no-referrer",
    });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    if (error instanceof TypeError && /header|ISO-8859-1|ByteString/i.test(error.message)) {
      throw new ApiError(401, "This is not a valid token");
    }
    throw new ApiError(0, "Cannot reach the gateway", { hint: "Is it running? openclaw gateway status" });
  }
  if (answer.ok) return answer;
  const failure = await failureOf(answer);
  if (answer.status === 401) refused();
  throw failure;
}

async function failureOf(answer) {
  try {
    const { error } = await answer.json();
    return new ApiError(answer.status, error.message, { kind: error.type, hint: error.hint });
  } catch {
    return new ApiError(answer.status, `The gateway answered ${answer.status}`);
  }
}

/** A request that is answered with JSON. */
export async function call(method, path, body) {
  const answer = await send(method, path, { body });
  return answer.json();
}

/** `call` for reading. */
export function get(path) {
  return call("GET", path);
}

/** One of the agent's files, as a blob. */
export async function blob(path) {
  const answer = await send("GET", path);
  return answer.blob();
}

/**
 * The server-sent events of a request, as `[name, data]`. Not an EventSource: that cannot send the
 * token in a header, and a token does not belong in a URL.
 */
export async function* stream(method, path, { body, signal } = {}) {
  const answer = await send(method, path, { body, signal });
  const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  try {
    for (;;) {
      const { done, value } = await reader.read().catch(lost);
      if (done) return;
      const parts = (rest + value).split("\n\n");
      rest = parts.pop();
      for (const part of parts) {
        const event = parsed(part);
        if (event !== null) yield event;
      }
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}

function lost(error) {
  if (error.name === "AbortError") throw error;
  throw Object.assign(new ApiError(0, "The connection to the gateway was lost"), { lost: true });
}

function parsed(text) {
  let name = "message";
  let data = null;
  for (const line of text.split("\n")) {
    if (line.startsWith("event: ")) name = line.slice(7);
    else if (line.startsWith("data: ")) data = (data === null ? "" : `${data}\n`) + line.slice(6);
  }
  return data === null ? null : [name, JSON.parse(data)];
}

/** A path with encoded segments and query; empty values are left out. */
export function path(pieces, query = {}) {
  const given = Object.entries(query).filter(([, value]) => value !== null && value !== undefined && value !== "");
  const tail = given.length ? `?${new URLSearchParams(given)}` : "";
  return `/api/${pieces.map(encodeURIComponent).join("/")}${tail}`;
}
