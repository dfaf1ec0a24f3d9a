// What is told of a container: a card with explain's first sentence, and the whole explanation in a dialog.

import { ask } from "./ask.js";
import { bytes, clock, el, fullName, parseList, plural, unmetWords, useText } from "./words.js";
import { keyOf } from "./model.js";

const WAIT_MS = 120; // a pointer that passes over the map asks nothing
const MOST_KEPT = 200;
const MOST_POOLS = 8;
// The reasons that have a section of their own, by how their codes begin, as in `cri-proxy explain`.
const APART = [
  ["topology hints", ["topology-"]],
  ["choice of devices", ["devices", "device-costs"]],
  ["choice of CPUs", ["cpus-picked"]],
  ["choice of memory", ["memory-", "hugepages", "cold-start", "no-cold-start"]],
];

export class Explain {
  constructor(card, dialog) {
    [this.card, this.dialog] = [card, dialog];
    this.known = new Map(); // answers by container and what it holds
    this.timer = 0;
    this.container = this.shown = null;
    dialog.addEventListener("click", (event) => event.target === dialog && dialog.close());
    card.addEventListener("click", () => this.container && this.open(this.container)); // on a phone it covers the row
  }

  // Show what is known of a container at once, and the first sentence of its explanation when it comes. `where`: the
  // CPU that is pointed at.
  point(container, { count = 1, where = "" } = {}) {
    clearTimeout(this.timer);
    this.container = container;
    this.shown = container ? signature(container) : null;
    if (!container) {
      this.card.replaceChildren(el("p", { class: "hint" }, "Point at a CPU or a row; choose it for the whole explanation."));
      return;
    }
    const sentence = el("p", { class: "why" }, this.first(container) ?? "…");
    const others = count > 1 ? el("span", { class: "times" }, ` and ${count - 1} more like it`) : "";
    this.card.replaceChildren(
      where && el("p", { class: "quiet" }, where), el("h3", {}, el("bdi", {}, fullName(container)), others), el("p", {}, placeText(container)), sentence,
      ...notes(container).map((note) => el("p", { class: "no" }, note)));
    if (this.first(container) !== null) return;
    this.timer = setTimeout(async () => {
      await this.ask(container);
      if (this.shown === signature(container)) sentence.textContent = "";
      if (this.shown === signature(container)) sentence.append(this.first(container) ?? "nothing is known of it any more");
    }, WAIT_MS);
  }

  first(container) {
    const explained = this.known.get(signature(container));
    return explained === undefined ? null : firstSentence(explained);
  }

  async ask(container) {
    const words = new URLSearchParams({ pod: container.pod_uid, container: container.name, namespace: container.namespace });
    const answer = await ask(`/api/v1/explain?${words}`);
    const { decisions = [] } = await answer.json();
    if (this.known.size >= MOST_KEPT) this.known.clear();
    const explained = decisions.length ? decisions[0] : null;
    this.known.set(signature(container), explained);
    return explained;
  }

  async open(container) {
    const title = el("h2", { id: "whole-title" }, el("bdi", {}, fullName(container)));
    const close = el("button", { class: "close", "aria-label": "close" }, "×");
    close.addEventListener("click", () => this.dialog.close());
    const body = el("div", { class: "sections", tabindex: "0" }, el("p", {}, "…"));
    this.dialog.replaceChildren(el("header", {}, title, close), body);
    if (!this.dialog.open) this.dialog.showModal();
    const explained = await this.ask(container).catch(() => null);
    body.replaceChildren(...(explained ? sections(explained, container) : [el("p", {}, "The daemon knows nothing of it any more.")]));
  }
}

function signature(container) {
  return [keyOf(container), container.container_id, container.cpus, container.mems, container.kind, container.state].join(" ");
}

export function placeText(container) {
  if (container.kind === "refused") return "holds nothing now";
  const cpus = container.cpus === null ? "any CPU" : `CPU${parseList(container.cpus).length === 1 ? "" : "s"} ${container.cpus}`;
  const parts = [useText(container), cpus];
  if (container.pool && container.kind !== "reserved") parts.push(`in ${container.pool}`);
  parts.push(container.mems === null ? "any memory node" : `memory node ${container.mems}`);
  if (container.memory_bytes) parts.push(bytes(container.memory_bytes));
  if (container.devices.length) parts.push(`devices ${container.devices.join(", ")}`);
  return `${parts.join(", ")} (${container.state})`;
}

function notes(container) {
  if (container.refusal) return []; // the first reason says it
  return [...unmetWords(container).map(([word, why]) => `${word}: ${why}`), ...container.notes];
}

function firstSentence(explained) {
  if (explained === null) return "nothing is known of it any more";
  const [condition] = sharedBecause(explained);
  const [first] = [...reasonsOf(explained), ...explained.reasons.map((reason) => reason.text)];
  const why = first ?? `${explained.outcome}: no record of its decision is left`;
  return condition ? `${why}; not exclusive: ${condition}` : why;
}

// What keeps it from CPUs of its own; of the QoS class, by which containers of its pod.
function sharedBecause({ not_exclusive: conditions, not_guaranteed_by: by }) {
  return conditions.map(({ code, text }) => (code === "qos" && by.length ? `${text}: ${by.join("; ")}` : text));
}

// The sentences of the reasons whose codes begin so; without such beginnings, of those that have no section of their own.
function reasonsOf(explained, beginnings = null) {
  const begins = (code, ways) => ways.some((way) => code.startsWith(way));
  const isOf = (code) => (beginnings ? begins(code, beginnings) : !APART.some(([, ways]) => begins(code, ways)));
  return explained.reasons.filter((reason) => isOf(reason.code)).map((reason) => reason.text);
}

function askedTexts({ request, defaults }) {
  const amounts = [
    ["CPU", request.cpu_request_mcpu, request.cpu_limit_mcpu, (mcpu) => `${mcpu / 1000}`],
    ["memory", request.memory_request_bytes, request.memory_limit_bytes, bytes],
  ];
  const texts = amounts.map(([what, asked, limit, shown]) => `${what} ${asked ? shown(asked) : "none"}${limit ? `, limit ${shown(limit)}` : ""}`);
  return [...texts, `QoS class ${request.pod.qos}`, ...defaults.map((each) => `${each.value}, by default: ${each.option}`)];
}

// The sections that `cri-proxy explain` prints.
function sections(explained, container) {
  const at = explained.decided_at_seconds;
  const when = `${explained.outcome}${at === null ? ": no record of its decision is left" : ` ${clock(at)}`}`;
  return [
    el("p", { class: "place" }, placeText(explained.container ?? container)), el("p", {}, explained.failure ? `${when}: ${explained.failure}` : when),
    ...section("not as wished", notes(container)),
    ...section("changed since the decision", explained.differences),
    ...section("not exclusive", sharedBecause(explained).map((text, i) => `${text} → ${explained.not_exclusive[i].remedy}`)),
    ...section("why", reasonsOf(explained)),
    ...section("what would help", explained.helps),
    ...section(`others in ${explained.wanted_pool}`, explained.holders.map(holderText)),
    ...section("asked for", askedTexts(explained)),
    ...APART.flatMap(([title, ways]) => section(title, reasonsOf(explained, ways))),
    ...section("attracted or repelled by", explained.affinity_reasons),
    ...ranking(explained),
    ...section("other containers that made room", explained.moves.map((move) => `${fullName(move.who)}: ${move.pool_before} → ${move.pool}`)),
    ...section("annotations ignored", explained.problems),
    ...section("annotations known, without effect yet", explained.without_effect),
    ...section("history", explained.history.map(historyText)),
  ];
}

function section(title, texts) {
  return texts.length ? [el("h3", {}, title), el("ul", {}, texts.map((text) => el("li", {}, text)))] : [];
}

function holderText(holder) {
  return `${fullName(holder)}: ${holder.cpus ? `CPUs ${holder.cpus}` : `${holder.shared_mcpu}m shared`}`;
}

function historyText(entry) {
  const again = entry.last_at_seconds === null ? "" : ` (${entry.count} times, last ${clock(entry.last_at_seconds)})`;
  return `${clock(entry.at_seconds)}  ${entry.text.startsWith(entry.what) ? "" : `${entry.what}: `}${entry.text}${again}`;
}

function ranking(explained) {
  if (!explained.ranking.length) return [];
  const rows = explained.ranking.slice(0, MOST_POOLS).map((pool) =>
    el("tr", {}, el("td", {}, pool.pool), el("td", {}, pool.outcome), el("td", {}, pool.why)));
  const more = explained.pools_considered - rows.length;
  return [el("h3", {}, "pools, best first"), el("table", {}, el("tbody", {}, rows)), more > 0 ? el("p", {}, `and ${plural(more, "more pool")}`) : ""].filter(Boolean);
}
