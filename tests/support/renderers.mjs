// Renders each line of standard input (a JSON string of Markdown) with every renderer; answers each
// with a line: a JSON object of HTML by renderer. Run where the packages of tests/e2e/renderers are.
import { createRequire } from "node:module";
import { createInterface } from "node:readline";
import { pathToFileURL } from "node:url";

const require = createRequire(`${process.cwd()}/`);
const load = async (name) => import(pathToFileURL(require.resolve(name)).href);
const [markdownIt, { marked }, { micromark }, { gfm, gfmHtml }, { unified }] = await Promise.all(
  ["markdown-it", "marked", "micromark", "micromark-extension-gfm", "unified"].map(load),
);
const plugins = await Promise.all(
  ["remark-parse", "remark-gfm", "remark-math", "remark-rehype", "rehype-raw", "rehype-stringify"].map(load),
);
const [parse, gfmPlugin, math, rehype, raw, stringify] = plugins.map((plugin) => plugin.default);
const dangerous = { allowDangerousHtml: true };
const remark = (...extra) =>
  [parse, gfmPlugin, ...extra].reduce((pipeline, plugin) => pipeline.use(plugin), unified())
    .use(rehype, dangerous).use(raw).use(stringify);
const plain = markdownIt.default({ html: true });
const linking = markdownIt.default({ html: true, linkify: true, typographer: true });
const withGfm = remark();
const withMath = remark(math);
const renderers = {
  marked: (text) => marked.parse(text),
  "markdown-it": (text) => plain.render(text),
  "markdown-it, linkify": (text) => linking.render(text),
  micromark: (text) =>
    micromark(text, {
      ...dangerous, allowDangerousProtocol: true, extensions: [gfm()], htmlExtensions: [gfmHtml()],
    }),
  remark: (text) => String(withGfm.processSync(text)),
  "remark, math": (text) => String(withMath.processSync(text)),
};
for await (const line of createInterface({ input: process.stdin })) {
  const text = JSON.parse(line);
  const pages = Object.entries(renderers).map(([name, render]) => [name, render(text)]);
  process.stdout.write(`${JSON.stringify(Object.fromEntries(pages))}\n`);
}
