// The Node SDK's smallest server. usage: node hello.mjs NODE_MODULES
import { createRequire } from "node:module";

const require = createRequire(process.argv[2] + "/");
const { McpServer } = require("@modelcontextprotocol/sdk/server/mcp.js");
const { StdioServerTransport } = require("@modelcontextprotocol/sdk/server/stdio.js");

const server = new McpServer({ name: "hello", version: "1" });
server.registerTool("hello", { description: "Say hello" }, async () => ({
  content: [{ type: "text", text: "hello" }],
}));
await server.connect(new StdioServerTransport());
