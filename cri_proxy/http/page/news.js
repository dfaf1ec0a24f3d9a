// What happened since yesterday: moves, refusals, reloads, and starts and ends where they are wanted; the newest first.

import { ask } from "./ask.js";
import { keyOf } from "./model.js";
import { clock, el, fullName, useText } from "./words.js";

const MOST = 200; // of starts and ends, and of the others
const MOST_ASKED = 5; // about containers that a change has moved: of further ones no reason is told
// What most containers have at their start and end: no news of the node, and shown where it is wanted.
const USUAL = new Set(["placed", "adopted", "restored", "ended", "environment", "devices"]);

export class News {
  // `onOpen` gets namespace, pod and name of the container that is chosen.
  constructor(list, onOpen) {
    [this.list, this.onOpen] = [list, onOpen];
    this.entries = []; // at, whether it is usual, element
    this.seen = new Set();
    this.showsStarts = false;
    this.heardUntil = yesterday();
  }

  // What the daemon knows of the time before, or since the stream was lost.
  begin(status) {
    this.refused(status.refused);
    this.reloaded(status.configuration);
    this.past();
    this.arrange();
  }

  async past() {
    const since = this.heardUntil;
    this.heardUntil = Date.now() / 1000;
    const answer = await ask(`/api/v1/history?since=${Math.round(since)}`).catch(() => null);
    if (!answer?.ok) this.heardUntil = since; // the next whole status asks for this time again
    const { events = [] } = answer?.ok ? await answer.json() : {};
    for (const event of events) this.told(event);
    this.arrange();
  }

  showStarts(shows) {
    this.showsStarts = shows;
    this.arrange();
  }

  // What a change tells; `before` are the containers by key as they were.
  changed(before, change) {
    const now = (this.heardUntil = Date.now() / 1000);
    const moved = [];
    for (const container of change.containers ?? []) {
      const old = before.get(keyOf(container));
      const [text, isUsual] = changeText(old, container);
      if (text) this.add(now, container, text, "move", isUsual);
      if (old && old.pool !== container.pool) moved.push([old, container]);
    }
    for (const key of change.gone ?? []) {
      const old = before.get(key);
      if (old) this.add(now, old, "gone", "gone", true);
    }
    this.moved(moved, now);
    this.refused(change.refused ?? []);
    this.reloaded(change.configuration);
    if ("is_ready" in change) this.add(now, null, change.is_ready ? "ready" : "not ready", change.is_ready ? "move" : "refusal");
    this.arrange();
  }

  // Who was moved, and why, by the last entry of its history.
  async moved(pairs, now) {
    for (const [number, [old, container]] of pairs.entries()) {
      const entry = number < MOST_ASKED ? await lastEntry(container).catch(() => null) : null;
      const plain = { at_seconds: now, what: "", text: `from ${old.pool || "no pool"} to ${container.pool || "no pool"}` };
      this.told({ ...container, ...(entry ?? plain) });
    }
    this.arrange();
  }

  told(event) {
    const kind = event.what === "refused" ? "refusal" : event.what === "configuration" ? "reload" : "move";
    const text = event.text.startsWith(event.what) ? event.text : `${event.what}: ${event.text}`;
    const again = event.count > 1 ? ` (${event.count} times, last ${clock(event.last_at_seconds)})` : "";
    this.once(event.at_seconds, event.pod ? event : null, text + again, kind, USUAL.has(event.what));
  }

  refused(refusals) {
    for (const each of refusals) this.once(each.at_seconds, each, each.text, "refusal");
  }

  reloaded(configuration) {
    const last = configuration?.last;
    if (!last) return;
    const why = last.reason ? `: ${last.reason}` : "";
    this.once(last.at_seconds, null, `configuration ${last.outcome}${why}`, last.outcome === "rejected" ? "refusal" : "reload");
  }

  once(at, container, text, kind, isUsual = false) {
    const key = `${at} ${container ? fullName(container) : ""} ${isUsual}`;
    if (!this.seen.has(key)) this.add(at, container, text, kind, isUsual);
    this.seen.add(key);
  }

  add(at, container, text, kind, isUsual = false) {
    const name = container ? el("button", { title: "the whole explanation" }, el("bdi", {}, fullName(container))) : "";
    if (name) name.addEventListener("click", () => this.onOpen(container));
    const element = el("li", { "data-kind": kind }, el("time", {}, clock(at)), name, ` ${text}`);
    this.entries.push({ at, isUsual, element });
  }

  // The newest first, whatever told of it, and no more than there is room for.
  arrange() {
    this.entries.sort((one, other) => other.at - one.at);
    const [rare, usual] = [false, true].map((isUsual) => this.entries.filter((each) => each.isUsual === isUsual));
    const more = rare.length > MOST || usual.length > MOST;
    const kept = new Set([...rare.slice(0, MOST), ...usual.slice(0, MOST)]);
    this.entries = this.entries.filter((each) => kept.has(each));
    const shown = this.entries.filter((each) => this.showsStarts || !each.isUsual).map((each) => each.element);
    this.isCut ||= more;
    const words = !shown.length ? "none since yesterday" : this.isCut ? "earlier ones: cri-proxy events --since yesterday" : "";
    this.list.replaceChildren(...shown, ...(words ? [el("li", { class: "hint" }, words)] : []));
  }
}

// When yesterday began, as `cri-proxy events --since yesterday` has it.
function yesterday() {
  return (Math.floor(Date.now() / 86400000) - 1) * 86400;
}

async function lastEntry(container) {
  const words = new URLSearchParams({ pod: container.pod_uid, container: container.name, namespace: container.namespace });
  const answer = await ask(`/api/v1/explain?${words}`);
  const { decisions = [] } = await answer.json();
  return decisions[0]?.history.at(-1) ?? null;
}

// What has changed of a container, and whether that is but its start or end. Sharers get more and fewer CPUs with each
// container that comes and goes: that is no news.
function changeText(before, after) {
  if (!before) return [`${after.state}, ${useText(after)} on ${cpusText(after.cpus)}${after.pool ? ` in ${after.pool}` : ""}`, true];
  const notes = after.notes.filter((note) => !before.notes.includes(note));
  const parts = before.state === after.state ? notes : [after.state, ...notes];
  return [parts.join(", "), !notes.length];
}

function cpusText(cpus) {
  return cpus === null ? "any CPU" : `CPUs ${cpus}`;
}
