// The server's events: the whole status, then its changes. Asks again where the stream ends.

import { ask, events } from "./ask.js";

const AGAIN_MS = 5000;
const SILENT_MS = 45000; // something comes every 15 s; a lost ssh forwarding tells nothing

export async function follow({ onStatus, onChange, onState }) {
  const takers = { status: onStatus, change: onChange };
  let reading = null;
  addEventListener("pagehide", () => reading.abort());
  addEventListener("pageshow", (event) => event.persisted && location.reload());
  for (;;) {
    reading = new AbortController();
    const why = await read(reading, takers, () => onState("live", ""));
    onState("away", `${why}; asked again every ${AGAIN_MS / 1000} s`);
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

// Hand on what comes for as long as something does; why it ended.
async function read(reading, takers, onOpen) {
  let timer = 0;
  const alive = () => {
    clearTimeout(timer);
    timer = setTimeout(() => reading.abort(), SILENT_MS);
  };
  try {
    const answer = await ask("/api/v1/events", { signal: reading.signal });
    if (!answer.ok) return (await answer.text()).trim();
    alive();
    onOpen();
    // A task of its own: what fails in drawing is reported, and does not end the stream.
    for await (const [name, text] of events(answer, alive)) queueMicrotask(() => takers[name]?.(JSON.parse(text)));
    return "the daemon has ended the stream";
  } catch {
    return "the daemon does not answer";
  } finally {
    clearTimeout(timer);
  }
}
