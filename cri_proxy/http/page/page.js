// The page: takes the status and its changes, and hands them to the map, the table, the news and the plan.

import { follow } from "./changes.js";
import { Explain } from "./explain.js";
import { MachineMap, countWords, cpusOf, legend } from "./map.js";
import { Model } from "./model.js";
import { News } from "./news.js";
import { Plan } from "./plan.js";
import { Table, filtered } from "./table.js";
import { clock, el, fullName, plural, setText } from "./words.js";

const byId = (id) => document.getElementById(id);
const explain = new Explain(byId("card"), byId("whole"));
const news = new News(byId("news"), (name) => model && explain.open(model.named(name)));
const map = new MachineMap(byId("map"), { onPoint: pointAtCpu, onOpen: openCpu });
const table = new Table(byId("rows"), { onPoint: pointAt, onOpen: (container) => explain.open(container) });
const plan = new Plan(null);
let model = null;

function pointAt(containers, where = "") {
  map.light(containers ? containers.flatMap(cpusOf) : null);
  explain.point(containers ? containers[0] : null, { count: containers?.length ?? 0, where });
  for (const row of document.querySelectorAll("tr.lit")) row.classList.remove("lit");
  if (containers) rowOf(containers[0])?.classList.add("lit");
}

function pointAtCpu(cpu) {
  const owner = cpu === null ? null : model.ownerOf.get(cpu);
  if (owner) pointAt([owner], `CPU ${cpu}: ${model.placeOf(cpu)}`);
  else {
    pointAt(null);
    map.light(cpu === null ? null : [cpu]);
    if (cpu !== null) tellOf(cpu);
  }
}

// Of a CPU without an owner: where it is, who may run there.
function tellOf(cpu) {
  const names = filtered(model, `cpu:${cpu}`, false).map(fullName);
  const load = Math.round(100 * (model.loads.get(cpu) ?? 0));
  const shown = names.slice(0, 5).map((name, number) => [number ? ", " : ": ", el("bdi", {}, name)]).flat();
  const more = names.length > 5 ? ` and ${names.length - 5} more; choose it for all` : "";
  byId("card").replaceChildren(
    el("p", { class: "quiet" }, model.placeOf(cpu)), el("h3", {}, `CPU ${cpu}: ${model.kindOf(cpu)}`),
    el("p", {}, `${load} % of its time is booked; ${plural(names.length, "container")} may run on it`, shown, more));
}

// A filter by one CPU shows it, as pointing at it does.
function showFiltered() {
  draw(false);
  const found = /(?:^|\s)cpu:(\d+)(?:\s|$)/.exec(byId("words").value);
  const isHere = found && map.cpus.has(Number(found[1]));
  pointAtCpu(isHere ? Number(found[1]) : null);
  if (found && !isHere) byId("card").replaceChildren(el("p", { class: "no" }, `no CPU ${found[1]} is online here`));
}

function openCpu(cpu) {
  const owner = model.ownerOf.get(cpu);
  if (owner) explain.open(owner);
  else {
    byId("words").value = `cpu:${cpu}`;
    showFiltered();
  }
}

function rowOf(container) {
  for (const row of table.rows.values()) if (row.containers.includes(container)) return row.element;
  return null;
}

function draw(isOther) {
  const { status } = model;
  setText(byId("node"), status.node);
  document.title = `${status.node} · cri-proxy`;
  setText(byId("policy"), `${status.policy}, ${countWords(model)}`);
  const ready = byId("ready");
  ready.hidden = status.is_ready;
  setText(ready, status.is_ready ? "" : "not ready");
  byId("fits").replaceChildren(...fitWords(status.fits));
  byId("configuration").replaceChildren(...configurationWords(status));
  const amiss = [...status.violations.map((text) => ["violation", text]), ...status.warnings.map((text) => ["warning", text])];
  byId("warnings").hidden = !amiss.length;
  byId("warnings").replaceChildren(...amiss.map(([kind, text]) => el("p", { "data-kind": kind }, `${kind}: ${text}`)));
  if (isOther) {
    map.draw(model);
    byId("legend").replaceChildren(...legend(model));
  } else map.update(model);
  plan.use(model, isOther);
  const chosen = filtered(model, byId("words").value, byId("problems").checked);
  table.show(model, chosen);
  const { refused_count: refused } = status;
  const isAll = chosen.length === model.containers.size + refused;
  setText(byId("count"), isAll ? "" : `${chosen.length} of ${countWords(model)}${refused ? ` and ${refused} refused` : ""}`);
  performance.mark("drawn");
  document.body.dataset.drawn = String(Number(document.body.dataset.drawn ?? 0) + 1);
}

// Which configuration is in force, and how the last reload went.
function configurationWords({ version, configuration: known }) {
  if (!known) return [];
  const { file, group, digest, since_seconds: since, last, needs_restart: waits } = known;
  const of = file ? `configuration ${digest.slice(0, 12)} of ${file}${group ? ` (group ${group})` : ""}` : "configuration of the command line alone";
  const kept = known.is_kept ? " (the last valid version)" : "";
  const parts = [el("span", {}, `${of}${kept}, in force since ${clock(since)}`)];
  if (last) parts.push(el("span", { class: last.outcome === "rejected" ? "no" : null }, `last reload ${clock(last.at_seconds)}: ${last.outcome}`));
  else parts.push(el("span", {}, "no reload since the start"));
  if (waits.length) parts.push(el("span", { class: "no" }, `waits for a restart: ${waits.join(", ")}`));
  return [...parts, el("span", {}, `cri-proxy ${version}`)];
}

function fitWords(fits) {
  if (!fits) return [];
  const text = ({ cpus, cpus_with_moves: more }) => `${plural(cpus, "CPU")}${more !== cpus ? ` (${more} if sharers move)` : ""}`;
  const isolated = fits.free_isolated ? `, ${fits.free_isolated} isolated` : "";
  const found = [["largest Guaranteed container that fits", text(fits)], ["free to own", plural(fits.free_cpus, "CPU") + isolated]];
  return found.map(([name, words]) => el("div", {}, el("dt", {}, name), el("dd", {}, words)));
}

function choose(tab) {
  for (const each of document.querySelectorAll("[role=tab]")) {
    const isChosen = each === tab;
    each.setAttribute("aria-selected", String(isChosen));
    each.tabIndex = isChosen ? 0 : -1;
    byId(each.getAttribute("aria-controls")).hidden = !isChosen;
  }
  if (tab.id === "tab-plan" && model) plan.open();
}

function live(state, why = "") {
  byId("live").dataset.state = state;
  setText(byId("live"), why ? `${state}: ${why}` : state);
}

for (const tab of document.querySelectorAll("[role=tab]")) {
  tab.addEventListener("click", () => choose(tab));
  tab.addEventListener("keydown", (event) => {
    if (event.key !== "ArrowRight" && event.key !== "ArrowLeft") return;
    const other = tab.nextElementSibling ?? tab.previousElementSibling;
    choose(other);
    other.focus();
  });
}
byId("filter").addEventListener("submit", (event) => event.preventDefault());
byId("filter").addEventListener("input", () => model && showFiltered());
byId("starts").addEventListener("input", (event) => news.showStarts(event.target.checked));
byId("words").addEventListener("focus", () => matchMedia("(max-width: 560px)").matches && byId("filter").scrollIntoView());
addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, dialog")) return;
  event.preventDefault();
  byId("words").focus();
});
addEventListener("click", (event) => event.target.closest(".map, .table, .card") || pointAt(null));
explain.point(null);
follow({
  onState: live,
  onStatus: (status) => {
    model = new Model(status, model);
    news.begin(status);
    draw(true);
  },
  onChange: (change) => {
    const before = new Map(model.containers);
    model.apply(change);
    news.changed(before, change);
    draw(false);
  },
});
