// The Node SDK's client at work: `node worker.mjs NODE_MODULES`. The same jobs as worker.py.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";

const require = createRequire(process.argv[2] + "/");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StdioClientTransport } = require("@modelcontextprotocol/sdk/client/stdio.js");

const clients = [];
const now = () => performance.now() / 1000;
const text = (result) => result.content[0].text;
const call = async (name, args) => text(await clients[0].callTool({ name, arguments: args }));

const jobs = {
  async open({ servers }) {
    const started = now();
    for (const [command, ...args] of Object.values(servers)) {
      const client = new Client({ name: "bench", version: "1" });
      await client.connect(new StdioClientTransport({ command, args }));
      await client.listTools();
      clients.push(client);
    }
    return now() - started;
  },
  async one_at_a_time({ calls, arguments: args }) {
    const times = [];
    for (let number = 0; number < calls; number++) {
      const started = now();
      await call("echo", args);
      times.push(now() - started);
    }
    return times.sort((a, b) => a - b)[calls >> 1];
  },
  async in_flight({ calls, width }) {
    let left = calls;
    const work = async () => {
      while (left-- > 0) await call("echo", { n: left });
    };
    const started = now();
    await Promise.all(Array.from({ length: width }, work));
    return (now() - started) / calls;
  },
  async large({ size }) {
    const started = now();
    const answer = await call("big", { size });
    if (answer.length < size) throw new Error(`${answer.length} of ${size} characters came`);
    return now() - started;
  },
  async after_a_kill({ pid, patience }) {
    process.kill(pid, "SIGKILL");
    const started = now();
    let last;
    while (now() - started < patience) {
      try {
        await call("echo", { n: 4711 });
        return now() - started;
      } catch (error) {
        last = error;
        await new Promise((done) => setTimeout(done, 10));
      }
    }
    throw last;
  },
};

for await (const line of createInterface({ input: process.stdin })) {
  const { job, ...asked } = JSON.parse(line);
  let outcome;
  try {
    outcome = { seconds: await jobs[job](asked) };
  } catch (error) {
    outcome = { failed: String(error).slice(0, 300) };
  }
  console.log(JSON.stringify(outcome));
}
process.exit(0);
