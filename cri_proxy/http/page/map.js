// The machine as a map: a box a CPU inside core, L3, node, package; memory as bars, devices at their node.

import { ownCpus } from "./model.js";
import { bytes, el, fullName, parseList, plural, setText } from "./words.js";

const SIZES = [[16, "xl"], [96, "l"], [320, "m"], [900, "s"], [Infinity, "xs"]];
const WORDS = { isolated: "isolated, free", reserved: "reserved for the system", unavailable: "not available" };

export class MachineMap {
  // `onPoint` gets the CPU that is pointed at (null: none), `onOpen` the one that is chosen.
  constructor(root, { onPoint = () => {}, onOpen = () => {} } = {}) {
    this.root = root;
    this.cpus = new Map();
    this.nodes = new Map();
    this.lit = new Set();
    this.planned = new Map();
    const cpuOf = (event) => {
      const found = event.target.closest ? event.target.closest(".cpu") : null;
      return found ? Number(found.dataset.cpu) : null;
    };
    root.addEventListener("pointerover", (event) => onPoint(cpuOf(event)));
    root.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && onPoint(null));
    root.addEventListener("focusin", (event) => this.focused(event.target, onPoint));
    root.addEventListener("focusout", () => onPoint(null));
    root.addEventListener("click", (event) => {
      // A first tap points, as there is nothing else on a phone that does.
      const isFirst = event.pointerType === "touch" && this.tapped !== cpuOf(event);
      this.tapped = cpuOf(event);
      if (this.tapped !== null) (isFirst ? onPoint : onOpen)(this.tapped);
    });
    root.addEventListener("keydown", (event) => this.pressed(event, cpuOf(event), onOpen));
  }

  // Draw another machine.
  draw(model) {
    this.cpus.clear();
    this.nodes.clear();
    const map = model.status.map;
    const packages = map ? map.packages : [];
    const count = packages.flatMap((each) => each.nodes).flatMap((node) => node.l3).flatMap((l3) => l3.cores)
      .reduce((sum, core) => sum + parseList(core).length, 0);
    this.root.dataset.size = SIZES.find(([most]) => count <= most)[1];
    const drawn = packages.map((each) => this.package(each));
    const offline = map && map.offline ? [el("p", { class: "offline" }, `offline: CPUs ${map.offline}`)] : [];
    this.root.replaceChildren(...drawn, ...offline);
    const first = this.root.querySelector(".cpu");
    if (first) first.tabIndex = 0;
    this.update(model);
  }

  package(each) {
    const nodes = each.nodes.map((node) => this.node(node));
    return el("section", { class: "package", "aria-label": `package ${each.id}` },
      el("h3", {}, `package ${each.id}`), el("div", { class: "nodes" }, nodes));
  }

  node(node) {
    const summary = el("span", { class: "summary" });
    const fit = el("span", { class: "fit" });
    const memory = el("div", { class: "memory" });
    const devices = el("ul", { class: "devices", "aria-label": `devices of NUMA node ${node.id}` });
    const cpus = el("div", { class: "cpus", role: "listbox", "aria-label": `CPUs of NUMA node ${node.id}` },
      node.l3.map((domain) => this.domain(domain)));
    this.nodes.set(node.id, { summary, fit, memory, devices, cpus, ids: node.l3.flatMap((l3) => l3.cores).flatMap(parseList) });
    return el("section", { class: "node" }, el("h4", {}, `node ${node.id} `, fit), summary, memory, cpus, devices);
  }

  // An L3 cache's cores in columns, so that a domain is about twice as wide as high.
  domain(domain) {
    const cores = domain.cores.map(parseList);
    const element = el("div", { class: "l3", role: "presentation", title: domain.id < 0 ? null : `L3 cache ${domain.id}` },
      cores.map((cpus) => el("div", { class: "core", role: "presentation" }, cpus.map((cpu) => this.cpu(cpu)))));
    const columns = 2 ** Math.ceil(Math.log2(Math.sqrt(2 * cores.length)));
    element.style.setProperty("--columns", Math.min(columns, cores.length));
    element.style.setProperty("--threads", Math.max(...cores.map((cpus) => cpus.length)));
    return element;
  }

  cpu(id) {
    const element = el("span", { class: "cpu", role: "option", "data-cpu": id, tabindex: "-1", "aria-selected": "false" });
    this.cpus.set(id, { element, shown: "" });
    return element;
  }

  // Show this moment; only boxes that look otherwise than before are touched.
  update(model) {
    this.model = model;
    for (const [id, box] of this.cpus) this.paint(id, box);
    for (const [id, node] of this.nodes) this.describe(id, node);
  }

  paint(id, box) {
    const owner = this.model.ownerOf.get(id);
    const plan = this.planned.get(id);
    const kind = plan ? "planned" : this.model.kindOf(id);
    const load = Math.min(100, Math.round(100 * (this.model.loads.get(id) || 0)));
    const hue = plan ? plan.hue : owner ? this.model.hueOf(owner) : 0;
    const shade = owner && !plan ? this.model.shadeOf(owner) : 0;
    const letter = plan ? "+" : owner ? this.model.letterOf(owner) : "";
    const name = plan ? plan.name : owner ? fullName(owner) : "";
    const shown = `${kind} ${load} ${hue} ${shade} ${letter} ${name}`;
    if (box.shown === shown) return;
    box.shown = shown;
    const { element } = box;
    element.dataset.kind = kind;
    element.style.setProperty("--load", `${load}%`);
    element.style.setProperty("--hue", hue);
    element.style.setProperty("--shade", 0.08 * shade);
    setText(element, letter);
    element.setAttribute("aria-label", this.label(id, kind, name, load));
  }

  label(id, kind, name, load) {
    if (kind === "planned") return `CPU ${id}: would be ${name}'s own`;
    if (kind === "owned") return `CPU ${id}: ${name}'s own`;
    if (kind === "shared") return `CPU ${id}: shared, ${load} % booked`;
    return `CPU ${id}: ${WORDS[kind]}`;
  }

  // The words of a node: what its CPUs are, its memory, its devices.
  describe(id, node) {
    const counts = new Map();
    for (const cpu of node.ids) counts.set(this.model.kindOf(cpu), (counts.get(this.model.kindOf(cpu)) || 0) + 1);
    const words = ["owned", "shared", "isolated", "reserved", "unavailable"]
      .filter((kind) => counts.get(kind)).map((kind) => `${counts.get(kind)} ${kind}`);
    const summary = words.join(" · ");
    setText(node.summary, summary);
    const fit = this.model.status.fits?.nodes.find((each) => each.node === id);
    setText(node.fit, fit ? `fits ${plural(fit.cpus, "CPU")}` : "");
    node.fit.title = fit && fit.cpus !== fit.cpus_with_moves ? `${plural(fit.cpus_with_moves, "CPU")} if sharers move` : "";
    node.cpus.setAttribute("aria-label", `CPUs of NUMA node ${id}: ${words.join(", ")}`);
    const memory = this.model.status.memory.filter((each) => each.node === id);
    replaceWhenOther(node.memory, JSON.stringify(memory), () => memory.flatMap(bars));
    const devices = this.model.status.inventory.filter((device) => device.numa_node === id);
    replaceWhenOther(node.devices, JSON.stringify(devices), () => devices.map(chip));
  }

  // Light these CPUs, and none when it is null.
  light(cpus) {
    const wanted = new Set(cpus || []);
    for (const cpu of this.lit) if (!wanted.has(cpu)) this.mark(cpu, false);
    for (const cpu of wanted) if (!this.lit.has(cpu)) this.mark(cpu, true);
    this.lit = wanted;
    this.root.classList.toggle("has-lit", wanted.size > 0);
  }

  mark(cpu, isLit) {
    const box = this.cpus.get(cpu);
    if (!box) return;
    box.element.classList.toggle("lit", isLit);
    box.element.setAttribute("aria-selected", String(isLit));
  }

  // Show these CPUs, with name and hue, as those of containers that are not there yet.
  plan(planned) {
    this.planned = planned;
    if (this.model) this.update(this.model);
  }

  focused(target, onPoint) {
    if (!target.classList.contains("cpu")) return;
    const before = this.root.querySelector('.cpu[tabindex="0"]');
    if (before) before.tabIndex = -1;
    target.tabIndex = 0;
    onPoint(Number(target.dataset.cpu));
  }

  // Arrows move from box to box, Enter opens the whole explanation.
  pressed(event, cpu, onOpen) {
    if (cpu === null) return;
    const order = [...this.cpus.keys()];
    const at = order.indexOf(cpu);
    const next = { ArrowRight: order[at + 1], ArrowLeft: order[at - 1], Home: order[0], End: order.at(-1) }[event.key];
    if (event.key === "Enter" || event.key === " ") onOpen(cpu);
    else if (event.key === "ArrowDown" || event.key === "ArrowUp") this.step(cpu, event.key === "ArrowDown" ? 1 : -1);
    else if (next !== undefined) this.cpus.get(next).element.focus();
    else return;
    event.preventDefault();
  }

  // Focus the nearest box of the next row.
  step(cpu, direction) {
    const from = this.cpus.get(cpu).element.getBoundingClientRect();
    let best = null;
    for (const { element } of this.cpus.values()) {
      const to = element.getBoundingClientRect();
      const rows = direction * (to.top - from.top);
      if (rows < from.height / 2) continue;
      const distance = rows * 8 + Math.abs(to.left - from.left);
      if (best === null || distance < best.distance) best = { element, distance };
    }
    if (best) best.element.focus();
  }
}

function replaceWhenOther(element, signature, make) {
  if (element.dataset.shown === signature) return;
  element.dataset.shown = signature;
  element.replaceChildren(...make());
}

function bars(node) {
  const of = [[node.kind === "dram" ? "memory" : node.kind, node.memory_bytes, node]];
  for (const pages of node.huge_pages) of.push([`pages of ${pages.page_size}`, pages.capacity_bytes, pages]);
  return of.map(([what, capacity, { promised_bytes: here, widely_promised_bytes: widely }]) => bar(what, capacity, here, widely));
}

function bar(what, capacity, here, widely) {
  const part = (count) => (capacity ? Math.min(100, (100 * count) / capacity) : 0);
  const text = `${what} ${bytes(capacity)}: ${bytes(here)} promised here${widely ? `, ${bytes(widely)} here or elsewhere` : ""}`;
  const filled = el("span", { class: "here" });
  const wide = el("span", { class: "widely" });
  filled.style.width = `${part(here)}%`;
  wide.style.width = `${Math.min(100 - part(here), part(widely))}%`;
  const track = el("span", { class: "track", role: "meter", "aria-label": text, "aria-valuemin": 0, "aria-valuemax": 100,
    "aria-valuenow": Math.round(part(here)), title: text }, filled, wide);
  return el("div", { class: "bar" }, track, el("span", { class: "amount" }, `${what === "memory" ? "" : `${what} `}${bytes(here)} of ${bytes(capacity)}`));
}

function chip(device) {
  const state = device.is_missing ? "missing" : !device.is_healthy ? "unhealthy" : device.holders.length ? "held" : "free";
  const held = device.holders.map((holder) => holder.container).join(", ");
  return el("li", { class: "device", "data-state": state, title: held ? `held by ${held}` : state },
    `${device.type} ${device.minor}`, el("span", { class: "hidden" }, held ? `, held by ${held}` : `, ${state}`));
}

// The CPUs to light for a container: where it may run, or what it owns where it is not pinned.
export function cpusOf(container) {
  return container.cpus === null ? ownCpus(container) : parseList(container.cpus);
}

// What the colours mean, as far as they are on this map.
export function legend(model) {
  const { sets } = model.places;
  const items = [["owned", "owned by one container: a hue a workload, a letter a container"], ["shared", "shared: the brighter, the more is booked"]];
  for (const kind of ["reserved", "isolated", "unavailable"]) if (sets[kind].size) items.push([kind, WORDS[kind]]);
  return items.map(([kind, words]) => el("li", {}, el("span", { class: "cpu sample", "data-kind": kind, "aria-hidden": "true" }), words));
}

export function countWords(model) {
  return plural(model.containers.size, "container");
}
