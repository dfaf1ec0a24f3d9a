// The second tab: pod YAML goes to the daemon, which answers where it would land; drawn on a map of its own.

import { ask } from "./ask.js";
import { MachineMap } from "./map.js";
import { el, parseList, plural } from "./words.js";

const GOLDEN_ANGLE = 137.508;

export class Plan {
  constructor(model) {
    this.model = model;
    this.map = null;
    this.landings = [];
    this.verdict = document.getElementById("verdict");
    this.list = document.getElementById("landings");
    document.getElementById("ask").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    this.list.addEventListener("pointerover", (event) => this.point(event));
    this.list.addEventListener("focusin", (event) => this.point(event));
    this.list.addEventListener("pointerleave", () => this.map?.light(null));
  }

  // Draw the machine of this moment; a place that was answered before stays drawn on it.
  use(model, isOther) {
    this.model = model;
    if (this.map && isOther) this.map.draw(model);
    else this.map?.update(model);
  }

  open() {
    if (this.map) return;
    this.map = new MachineMap(document.getElementById("plan-map"));
    this.map.draw(this.model);
  }

  async ask() {
    const button = document.getElementById("submit");
    const words = new URLSearchParams({ namespace: document.getElementById("namespace").value });
    button.disabled = true;
    this.tell("…", "");
    try {
      const answer = await ask(`/api/v1/fit/manifests?${words}`, {
        method: "POST", headers: { "Content-Type": "application/yaml" }, body: document.getElementById("yaml").value,
      });
      const isJson = (answer.headers.get("Content-Type") ?? "").startsWith("application/json");
      this.show(isJson ? await answer.json() : { containers: [], problem: await answer.text() });
    } catch (error) {
      this.show({ containers: [], problem: `the daemon does not answer: ${error.message}` });
    } finally {
      button.disabled = false;
    }
  }

  tell(text, kind) {
    this.verdict.replaceChildren(el("span", { class: kind }, text));
  }

  show({ containers, problem }) {
    const refused = containers.filter((each) => each.refused).length;
    if (problem) this.tell(problem, "no");
    else if (!refused) this.tell(`${plural(containers.length, "container")} would be placed; nothing was changed`, "yes");
    else this.tell(`${containers.length - refused} of ${plural(containers.length, "container")} would be placed, ${refused} refused; nothing was changed`, "no");
    this.landings = containers;
    this.list.replaceChildren(...containers.map((each, number) => this.landing(each, number)));
    const planned = new Map();
    containers.forEach((each, number) => {
      for (const cpu of parseList(each.own_cpus)) planned.set(cpu, { name: each.container, hue: hueOf(number) });
    });
    this.map.plan(planned);
  }

  landing(each, number) {
    const swatch = el("span", { class: "swatch", "data-kind": each.refused ? "refused" : each.own_cpus ? "owned" : "shared", "aria-hidden": "true" }, each.refused ? "×" : each.own_cpus ? "+" : "");
    swatch.style.setProperty("--hue", hueOf(number));
    const lines = each.refused ? [["no", `would be refused: ${each.refused}`]] : placedLines(each);
    for (const problem of each.problems) lines.push(["no", `annotation without effect: ${problem}`]);
    const why = each.reasons.length ? el("details", {}, el("summary", {}, "why there"), each.reasons.map((reason) => el("p", { class: "why" }, reason))) : "";
    return el("li", { tabindex: "0", "data-number": number }, el("p", {}, swatch, el("b", {}, el("bdi", {}, each.container))),
      lines.map(([kind, text]) => el("p", { class: kind || null }, text)), why);
  }

  point(event) {
    const number = event.target.closest("li")?.dataset.number;
    if (number === undefined) return;
    const each = this.landings[Number(number)];
    this.map.light(parseList(each.own_cpus || each.cpus));
  }
}

function placedLines(each) {
  const own = each.own_cpus && each.own_cpus !== each.cpus ? `, ${each.own_cpus} its own` : "";
  const memory = each.mems ? `, memory node ${each.mems}` : "";
  const devices = each.devices.length ? `, devices ${each.devices.join(", ")}` : "";
  const lines = [["", `${each.kind}, CPUs ${each.cpus || "not pinned"}${own}${memory}, ${each.pool}${devices}`]];
  for (const move of each.moves) lines.push(["", `moves ${move.container}: CPUs ${move.cpus_before || "any"} → ${move.cpus || "any"}`]);
  if (each.narrowed) lines.push(["", `narrows the shared CPUs of ${plural(each.narrowed, "container")}`]);
  return lines;
}

function hueOf(number) {
  return Math.round((150 + number * GOLDEN_ANGLE) % 360);
}
