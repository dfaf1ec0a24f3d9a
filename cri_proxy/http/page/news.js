// The line of what happened: moves, refusals, reloads; the newest first.

import { keyOf } from "./model.js";
import { clock, el, fullName, useText } from "./words.js";

const MOST = 100;

export class News {
  constructor(list) {
    this.list = list;
    this.seen = new Set();
  }

  // What the status itself tells of the time before.
  begin(status) {
    this.happened(status.recent ?? []);
    this.refused(status.refused);
    this.reloaded(status.configuration);
    this.sort();
    this.empty();
  }

  // What a change tells; `before` are the containers by key as they were.
  changed(before, change) {
    const now = Date.now() / 1000;
    for (const container of change.containers ?? []) {
      const text = changeText(before.get(keyOf(container)), container);
      if (text) this.add(now, fullName(container), text, "move");
    }
    for (const key of change.gone ?? []) {
      const old = before.get(key);
      if (old) this.add(now, fullName(old), "gone", "gone");
    }
    this.happened(change.recent ?? []);
    this.refused(change.refused ?? []);
    this.reloaded(change.configuration);
    if ("is_ready" in change) this.add(now, "", change.is_ready ? "ready" : "not ready", change.is_ready ? "move" : "refusal");
    this.sort();
    this.empty();
  }

  // Entries of histories: who was moved, and why.
  happened(events) {
    for (const each of events) {
      this.once(`${each.at_seconds} ${each.what} ${fullName(each)}`, each.at_seconds, fullName(each), eventText(each), "move");
    }
  }

  refused(refusals) {
    for (const each of [...refusals].reverse()) {
      this.once(`${each.at_seconds} ${fullName(each)}`, each.at_seconds, fullName(each), each.text, "refusal");
    }
  }

  reloaded(configuration) {
    const last = configuration?.last;
    if (!last) return;
    const why = last.reason ? `: ${last.reason}` : "";
    this.once(`reload ${last.at_seconds}`, last.at_seconds, "", `configuration ${last.outcome}${why}`, last.outcome === "rejected" ? "refusal" : "reload");
  }

  once(key, ...entry) {
    if (this.seen.has(key)) return;
    this.seen.add(key);
    this.add(...entry);
  }

  add(at, name, text, kind) {
    if (this.list.firstElementChild?.classList.contains("hint")) this.list.replaceChildren();
    this.list.prepend(el("li", { "data-kind": kind, "data-at": at }, el("time", {}, clock(at)), name ? el("b", {}, el("bdi", {}, name)) : "", ` ${text}`));
    while (this.list.children.length > MOST) this.list.lastElementChild.remove();
  }

  // The newest first, whatever told of it.
  sort() {
    const entries = [...this.list.children].filter((each) => each.dataset.at);
    this.list.replaceChildren(...entries.sort((one, other) => Number(other.dataset.at) - Number(one.dataset.at)));
  }

  empty() {
    if (!this.list.children.length) this.list.append(el("li", { class: "hint" }, "nothing since this page was opened"));
  }
}

// What `recent` does not have: containers that come, states, notes. Whoever shares gets more and fewer CPUs with each that
// comes and goes: that is no news.
function changeText(before, after) {
  if (!before) return `${after.state}, ${useText(after)} on ${cpusText(after.cpus)}${after.pool ? ` in ${after.pool}` : ""}`;
  const parts = before.state === after.state ? [] : [after.state];
  return [...parts, ...after.notes.filter((note) => !before.notes.includes(note))].join(", ");
}

function eventText(event) {
  return event.text.startsWith(event.what) ? event.text : `${event.what}: ${event.text}`;
}

function cpusText(cpus) {
  return cpus === null ? "any CPU" : `CPUs ${cpus}`;
}
