// The line of what happened: moves, refusals, reloads; the newest first.

import { ask } from "./ask.js";
import { keyOf } from "./model.js";
import { clock, el, fullName, useText } from "./words.js";

const MOST = 100;
const PAST_SECONDS = 86400;
const MOST_ASKED = 5; // about containers that a change has moved: of further ones no reason is told
// What most containers have at their start and end: no news of the node.
const USUAL = new Set(["placed", "adopted", "restored", "ended", "environment", "devices"]);

export class News {
  constructor(list) {
    this.list = list;
    this.seen = new Set();
    this.hasPast = false;
  }

  // What the daemon knows of the time before.
  begin(status) {
    this.refused(status.refused);
    this.reloaded(status.configuration);
    if (!this.hasPast) this.past();
    this.hasPast = true;
    this.arrange();
  }

  async past() {
    const answer = await ask(`/api/v1/history?since=${Math.round(Date.now() / 1000) - PAST_SECONDS}`).catch(() => null);
    const { events = [] } = answer?.ok ? await answer.json() : {};
    for (const event of events.filter((each) => !USUAL.has(each.what)).slice(-MOST)) this.told(event);
    this.arrange();
  }

  // What a change tells; `before` are the containers by key as they were.
  changed(before, change) {
    const now = Date.now() / 1000;
    const moved = [];
    for (const container of change.containers ?? []) {
      const old = before.get(keyOf(container));
      const text = changeText(old, container);
      if (text) this.add(now, fullName(container), text, "move");
      if (old && old.pool !== container.pool) moved.push([old, container]);
    }
    for (const key of change.gone ?? []) {
      const old = before.get(key);
      if (old) this.add(now, fullName(old), "gone", "gone");
    }
    this.moved(moved, now);
    this.refused(change.refused ?? []);
    this.reloaded(change.configuration);
    if ("is_ready" in change) this.add(now, "", change.is_ready ? "ready" : "not ready", change.is_ready ? "move" : "refusal");
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
    this.once(event.at_seconds, event.pod ? fullName(event) : "", text, kind);
  }

  refused(refusals) {
    for (const each of refusals) this.once(each.at_seconds, fullName(each), each.text, "refusal");
  }

  reloaded(configuration) {
    const last = configuration?.last;
    if (!last) return;
    const why = last.reason ? `: ${last.reason}` : "";
    this.once(last.at_seconds, "", `configuration ${last.outcome}${why}`, last.outcome === "rejected" ? "refusal" : "reload");
  }

  once(at, name, text, kind) {
    const key = `${at} ${name}`;
    if (!this.seen.has(key)) this.add(at, name, text, kind);
    this.seen.add(key);
  }

  add(at, name, text, kind) {
    this.list.append(el("li", { "data-kind": kind, "data-at": at }, el("time", {}, clock(at)), name ? el("b", {}, el("bdi", {}, name)) : "", ` ${text}`));
  }

  // The newest first, whatever told of it, and no more than there is room for.
  arrange() {
    const entries = [...this.list.children].filter((each) => each.dataset.at);
    entries.sort((one, other) => Number(other.dataset.at) - Number(one.dataset.at));
    const hint = el("li", { class: "hint" }, "nothing in the last day");
    this.list.replaceChildren(...(entries.length ? entries.slice(0, MOST) : [hint]));
  }
}

async function lastEntry(container) {
  const words = new URLSearchParams({ pod: container.pod_uid, container: container.name, namespace: container.namespace });
  const answer = await ask(`/api/v1/explain?${words}`);
  const { decisions = [] } = await answer.json();
  return decisions[0]?.history.at(-1) ?? null;
}

// Containers that come, states, notes. Whoever shares gets more and fewer CPUs with each that comes and goes: that is no
// news.
function changeText(before, after) {
  if (!before) return `${after.state}, ${useText(after)} on ${cpusText(after.cpus)}${after.pool ? ` in ${after.pool}` : ""}`;
  const parts = before.state === after.state ? [] : [after.state];
  return [...parts, ...after.notes.filter((note) => !before.notes.includes(note))].join(", ");
}

function cpusText(cpus) {
  return cpus === null ? "any CPU" : `CPUs ${cpus}`;
}
