// The table of containers: pods of a workload that are alike fold into a row; filter; keys.

import { keyOf } from "./model.js";
import { el, formatList, fullName, parseList, unmetWords, useText } from "./words.js";

export class Table {
  // `onPoint` gets the containers of a row (null: none), `onOpen` the first of them.
  constructor(body, { onPoint = () => {}, onOpen = () => {} } = {}) {
    this.body = body;
    this.rows = new Map(); // by key: signature, element, containers
    this.expanded = new Set();
    this.current = null;
    const rowOf = (event) => this.rows.get(event.target.closest("tr")?.dataset.key);
    body.addEventListener("pointerover", (event) => onPoint(rowOf(event)?.containers ?? null));
    body.addEventListener("pointerleave", (event) => event.pointerType !== "touch" && onPoint(null));
    body.addEventListener("focusin", (event) => {
      this.current = rowOf(event)?.key ?? null;
      onPoint(rowOf(event)?.containers ?? null);
    });
    body.addEventListener("focusout", () => onPoint(null));
    body.addEventListener("click", (event) => this.clicked(event, rowOf(event), onOpen));
    body.addEventListener("keydown", (event) => this.pressed(event, rowOf(event)));
  }

  clicked(event, row, onOpen) {
    if (!row) return;
    const isFirstTap = event.pointerType === "touch" && this.tapped !== row.key;
    this.tapped = row.key;
    if (event.target.closest(".fold")) this.toggle(row);
    else if (!isFirstTap) onOpen(row.containers[0]);
  }

  toggle(row, wanted = !this.expanded.has(row.key)) {
    if (!row.folds || wanted === this.expanded.has(row.key)) return;
    if (wanted) this.expanded.add(row.key);
    else this.expanded.delete(row.key);
    this.show(this.model, this.chosen);
  }

  // Up and Down move from row to row, Right and Left unfold and fold.
  pressed(event, row) {
    if (!row) return;
    const names = [...this.body.querySelectorAll(".name")];
    const at = names.findIndex((name) => row.element.contains(name));
    const next = { ArrowDown: names[at + 1], ArrowUp: names[at - 1], Home: names[0], End: names.at(-1) }[event.key];
    if (event.key === "ArrowRight" || event.key === "ArrowLeft") this.toggle(row, event.key === "ArrowRight");
    else if (next) next.focus();
    else return;
    event.preventDefault();
  }

  // Show these containers of the model.
  show(model, chosen) {
    [this.model, this.chosen] = [model, chosen];
    const rows = [];
    for (const group of folded(chosen)) {
      const folds = group.containers.length > 1;
      rows.push(this.row(`group ${group.key}`, group.containers, { folds }));
      if (folds && this.expanded.has(`group ${group.key}`)) {
        for (const container of group.containers) rows.push(this.row(keyOf(container), [container], { isInside: true }));
      }
    }
    this.rows = new Map(rows.map((row) => [row.key, row]));
    const elements = rows.map((row) => row.element);
    if (!rows.some((row) => row.key === this.current)) this.current = rows.length ? rows[0].key : null;
    const isSame = elements.length === this.body.children.length && elements.every((element, i) => this.body.children[i] === element);
    if (!isSame) {
      const hadFocus = this.body.contains(document.activeElement);
      this.body.replaceChildren(...elements);
      if (hadFocus) this.rows.get(this.current)?.element.querySelector(".name").focus();
    }
    for (const row of rows) row.element.querySelector(".name").tabIndex = row.key === this.current ? 0 : -1;
  }

  row(key, containers, { folds = false, isInside = false }) {
    const [first] = containers;
    const cells = this.cells(containers, isInside);
    const isOpen = this.expanded.has(key);
    const signature = JSON.stringify([cells, folds, isOpen, isInside]);
    const known = this.rows.get(key);
    if (known && known.signature === signature) return Object.assign(known, { containers });
    const fold = folds ? el("button", { class: "fold", tabindex: "-1", "aria-label": `${isOpen ? "fold" : "unfold"} ${cells.name}` }, isOpen ? "▾" : "▸") : el("span", { class: "fold" });
    const swatch = el("span", { class: "swatch", "data-kind": cells.swatch, "aria-hidden": "true" }, cells.letter);
    if (cells.hue !== null) swatch.style.setProperty("--hue", cells.hue);
    const name = el("button", { class: "name", tabindex: "-1", "aria-expanded": folds ? String(isOpen) : null, title: fullName(first) },
      el("span", { class: "namespace" }, cells.namespace), el("bdi", {}, cells.name), cells.count ? el("span", { class: "times" }, ` ×${cells.count}`) : "");
    const element = el("tr", { "data-key": "", class: isInside ? "inside" : null },
      el("td", {}, el("div", { class: "what" }, fold, swatch, name)), el("td", {}, cells.use),
      el("td", { class: "list", title: cells.cpus }, cells.cpus), el("td", { class: "list" }, cells.nodes),
      el("td", {}, cells.wished.map(([word, why]) => el("span", { class: word === "yes" ? "yes" : "no", title: why }, word))));
    element.dataset.key = key;
    return { key, signature, element, containers, folds };
  }

  cells(containers, isInside) {
    const [first] = containers;
    const own = first.exclusive || first.isolated;
    const cpus = [...new Set(containers.flatMap((container) => parseList(container.cpus)))];
    const isAny = containers.some((container) => container.cpus === null);
    const named = containers.length > 1 ? first.workload : first.pod;
    return {
      namespace: isInside ? "" : `${first.namespace}/`,
      name: `${named}/${first.name}`,
      count: containers.length > 1 ? containers.length : 0,
      letter: first.refusal ? "×" : containers.length === 1 ? this.model.letterOf(first) : "",
      hue: own ? this.model.hueOf(first) : null,
      swatch: own ? "owned" : first.kind,
      use: first.state === "running" || first.kind === first.state ? useText(first) : `${useText(first)}, ${first.state}`,
      cpus: isAny ? "any" : formatList(cpus),
      nodes: isAny ? "any" : formatList(this.model.nodesOf(cpus)),
      wished: wishedWords(containers),
    };
  }
}

function wishedWords(containers) {
  const found = new Map();
  for (const container of containers) {
    for (const [word, why] of unmetWords(container)) found.set(word, why);
    if (container.notes.length && !container.unmet.length) found.set("see note", container.notes.join("; "));
  }
  return found.size ? [...found] : [["yes", "it has what it asks for"]];
}

function folded(containers) {
  const groups = new Map();
  for (const each of containers) {
    const isAlone = each.workload_kind === "Pod" || !each.workload;
    const alike = JSON.stringify([each.namespace, each.workload, each.name, each.kind, useText(each), each.state, each.unmet, each.notes]);
    const key = isAlone ? keyOf(each) : alike;
    if (!groups.has(key)) groups.set(key, { key, containers: [] });
    groups.get(key).containers.push(each);
  }
  return [...groups.values()];
}

// The containers that a filter lets through, refused ones first: all of its words, of which cpu:N and node:N mean numbers.
export function filtered(model, text, onlyProblems) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean).map((word) => matcher(model, word));
  return [...model.refused, ...model.status.containers].filter((container) =>
    (!onlyProblems || container.unmet.length || container.notes.length) && words.every((matches) => matches(container)));
}

function matcher(model, word) {
  const number = /^(cpu|node):(\d+)$/.exec(word);
  if (number) {
    const wanted = Number(number[2]);
    if (number[1] === "cpu") return (container) => parseList(container.cpus).includes(wanted);
    return (container) => container.cpus !== null && model.nodesOf(parseList(container.cpus)).includes(wanted);
  }
  return (container) =>
    [fullName(container), container.workload, useText(container), container.kind, container.qos, container.pool, container.state,
      ...unmetWords(container).map(([words]) => words)].some((field) => field.toLowerCase().includes(word));
}
