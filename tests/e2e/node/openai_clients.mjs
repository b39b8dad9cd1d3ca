// Holds conversations with the gateway through the AI SDK and OpenAI's own library; prints each text.
import { createOpenAI } from "@ai-sdk/openai";
import { Output, generateText, stepCountIs, streamText, tool } from "ai";
import OpenAI from "openai";
import { z } from "zod";

const [baseURL, apiKey] = process.argv.slice(2);
const provider = createOpenAI({ baseURL, apiKey });
const weather = tool({
  description: "Weather of a city",
  inputSchema: z.object({ city: z.string() }),
  execute: ({ city }) => ({ city, degrees: 20 }),
});
const all = {
  reasoningEffort: "low", reasoningSummary: "auto", textVerbosity: "low", serviceTier: "auto",
  forceReasoning: true, parallelToolCalls: true, user: "u", promptCacheKey: "k",
};
const said = {};

for (const [name, model] of [["responses", provider("openclaw")], ["chat", provider.chat("openclaw")]]) {
  for (const store of [true, false]) {
    const options = { model, providerOptions: { openai: { ...all, store } } };
    const messages = [{ role: "user", content: "hello" }];
    for (let turn = 0; turn < 3; turn++) {
      const answer = await generateText({ ...options, messages });
      messages.push(...answer.response.messages, { role: "user", content: `and ${turn}` });
    }
    const streamed = streamText({
      ...options, messages, onError: ({ error }) => { throw error; },
    });
    said[`${name} ${store}`] = await streamed.text;
    const tools = { ...options, tools: { weather }, stopWhen: stepCountIs(4) };
    const question = [{ role: "user", content: "weather in Paris" }];
    const looked = await generateText({ ...tools, messages: question });
    question.push(...looked.response.messages, { role: "user", content: "thank you" });
    said[`${name} ${store} tools`] = [looked.text, (await generateText({ ...tools, messages: question })).text];
  }
  const person = Output.object({ schema: z.object({ name: z.string() }) });
  said[`${name} object`] = (await generateText({ model, output: person, prompt: "a person" })).output;
}

const openai = new OpenAI({ baseURL, apiKey });
const cut = openai.responses.stream({ model: "openclaw", input: "a long story" });
for await (const _ of cut);
const final = await cut.finalResponse();
said.cut = [final.status, final.incomplete_details.reason, final.output_text];
console.log(JSON.stringify(said));
