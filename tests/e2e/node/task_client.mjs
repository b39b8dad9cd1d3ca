// A task from start to result, with a question in between, by the TypeScript SDK's client and ext-tasks.
// node task_client.mjs URL TOKEN MESSAGE
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createTaskSessionFromClient, resultFromTaskOutcome } from "@modelcontextprotocol/ext-tasks/client";

const [url, token, message] = process.argv.slice(2);
const protocolVersion = "2026-07-28";
const clientInfo = { name: "ext-tasks", version: "1" };
const clientCapabilities = {
  elicitation: { form: {} },
  extensions: { "io.modelcontextprotocol/tasks": {} },
};
const client = new Client(clientInfo, {
  capabilities: clientCapabilities,
  versionNegotiation: { mode: "auto" },
});
const authorization = `Bearer ${token}`;
await client.connect(
  new StreamableHTTPClientTransport(new URL(url), { requestInit: { headers: { authorization } } }),
);
const seen = [];
let last = 0;
async function rawDispatch(request, options) {
  const { method, params = {} } = request;
  seen.push(method);
  const headers = new Headers(options?.context?.headers ?? {});
  headers.set("authorization", authorization);
  headers.set("content-type", "application/json");
  headers.set("accept", "application/json, text/event-stream");
  headers.set("mcp-protocol-version", protocolVersion);
  headers.set("mcp-method", method);
  headers.set("mcp-name", params.taskId ?? params.name ?? "");
  const body = JSON.stringify({ jsonrpc: "2.0", id: ++last, method, params });
  const answer = await fetch(url, { method: "POST", headers, body, signal: options?.signal });
  const text = await answer.text();
  const line = text.startsWith("{") ? text : text.split("\n").filter((one) => one.startsWith("data: ")).pop().slice(6);
  const told = JSON.parse(line);
  return "error" in told ? { kind: "error", error: told.error } : { kind: "result", result: told.result };
}
const asked = [];
const session = createTaskSessionFromClient(client, {
  endpointId: "openclaw",
  rawDispatch,
  v2RequestFraming: { protocolVersion, clientInfo, clientCapabilities },
  onInputRequest: async (request) => {
    asked.push(JSON.stringify(request));
    return { action: "accept", content: { answer: "once" } };
  },
});
const execution = await session.callTool("order_openclaw", { message });
const { outcome } = await execution.settle();
const result = resultFromTaskOutcome(outcome);
await session.close();
console.log(JSON.stringify({ era: client.getProtocolEra(), seen, asked, result }));
process.exit(0);
