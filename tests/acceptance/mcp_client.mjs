// Drives every working tool with the TypeScript SDK, whose client validates answers by their output schemas.
// node mcp_client.mjs PYTHON SERVER: prints one JSON object.
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";

const [python, server] = process.argv.slice(2);
const client = new Client({ name: "typescript", version: "1" });
await client.connect(new StdioClientTransport({ command: python, args: [server], env: process.env }));
const tools = (await client.listTools()).tools;
const call = (name, args = {}) => client.callTool({ name, arguments: args }, undefined, { timeout: 90000 });
const claim = "The TypeScript client saw a heron 🦔.";
const stored = await call("memory_store", { claim, source: { uri: "https://example.org", quote: "a heron" } });
const found = await call("memory_search", { ids: stored.structuredContent.atom_id });
const answers = {
  memory_store: stored,
  memory_search: found,
  memory_get_context: await call("memory_get_context", { question: claim }),
  memory_stats: await call("memory_stats", { detail: true }),
  memory_ingest: await call("memory_ingest", { text: "A gannet dives. A tern hovers.", title: "Birds" }),
  memory_add_gap: await call("memory_add_gap", { question: "Which bird comes next?" }),
  memory_list_gaps: await call("memory_list_gaps"),
};
const refused = await call("memory_search", { limt: 3 });
const later = await call("memory_infer");
const resource = await client.readResource({ uri: `pegas://atom/${stored.structuredContent.atom_id}` });
const prompt = await client.getPrompt({ name: "answer_with_memory", arguments: { question: "What?" } });
console.log(JSON.stringify({
  server: client.getServerVersion().name,
  instructions: client.getInstructions(),
  tools: tools.map((tool) => tool.name),
  failed: Object.entries(answers).filter(([, answer]) => answer.isError).map(([name, answer]) => [name, answer.content]),
  claim: found.structuredContent.results[0].claim,
  refused: refused.content[0].text,
  later: later.content[0].text,
  resource: JSON.parse(resource.contents[0].text).claim,
  prompt: prompt.messages.length,
}));
await client.close();
