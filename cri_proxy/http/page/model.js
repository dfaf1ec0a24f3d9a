// The status as the page needs it: containers by key, who owns which CPU, how much is booked on each. No elements.

import { fullName, parseList } from "./words.js";

const GOLDEN_ANGLE = 137.508; // neighbouring numbers get hues far apart
const LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghjklmnopqstuvwyz0123456789"; // without r, i, x, as `status` has it

export function keyOf(container) {
  return `${container.pod_uid}/${container.name}`;
}

export class Model {
  constructor(status, earlier = null) {
    this.letters = earlier ? earlier.letters : new Map();
    this.hues = earlier ? earlier.hues : new Map();
    this.shades = earlier ? earlier.shades : new Map();
    this.use(status);
  }

  use(status) {
    this.status = status;
    this.containers = new Map(status.containers.map((container) => [keyOf(container), container]));
    this.places = placesOf(status.map);
    this.work();
  }

  // Take over the members of a change; lists of containers and pools have only the changed items.
  apply(change) {
    const { containers = [], pools = [], gone = [], ...others } = change;
    Object.assign(this.status, others);
    for (const key of gone) this.containers.delete(key);
    for (const container of containers) this.containers.set(keyOf(container), container);
    const changed = new Map(pools.map((pool) => [pool.name, pool]));
    this.status.pools = this.status.pools.map((pool) => changed.get(pool.name) || pool);
    this.status.containers = [...this.containers.values()].sort(byName);
    if (gone.length || containers.length) {
      this.containers = new Map(this.status.containers.map((container) => [keyOf(container), container]));
    }
    this.work();
  }

  // Work out what depends on the whole: owners with their letters and hues, and the load of every CPU.
  work() {
    const owners = this.status.containers.filter((container) => container.exclusive || container.isolated);
    this.letters = lettered(owners.map(ownerName), this.letters);
    this.ownerOf = new Map();
    for (const container of owners) {
      for (const cpu of ownCpus(container)) this.ownerOf.set(cpu, container);
    }
    this.loads = loadsOf(this.status);
    this.refused = this.status.refused.map(unplaced);
  }

  // The container of this name: one that is there, one that was refused, or its name alone.
  named(name) {
    const known = [...this.containers.values(), ...this.refused].find((each) => fullName(each) === fullName(name));
    return known ?? unplaced(name);
  }

  // A CPU in words: where it is.
  placeOf(cpu) {
    const place = this.places.of.get(cpu);
    return place ? `package ${place.package}, NUMA node ${place.node}, core of CPU${place.core.includes("-") || place.core.includes(",") ? "s" : ""} ${place.core}` : "";
  }

  letterOf(container) {
    return this.letters.get(ownerName(container)) || "";
  }

  // A hue for each workload, and for each container of its pods.
  hueOf(container) {
    const name = `${container.namespace}/${container.workload || container.pod}/${container.name}`;
    if (!this.hues.has(name)) this.hues.set(name, Math.round((210 + this.hues.size * GOLDEN_ANGLE) % 360));
    return this.hues.get(name);
  }

  // Neighbours of one hue are told apart by a lighter one.
  shadeOf(container) {
    const name = ownerName(container);
    if (!this.shades.has(name)) this.shades.set(name, this.shades.size % 2);
    return this.shades.get(name);
  }

  kindOf(cpu) {
    const { sets } = this.places;
    if (this.ownerOf.has(cpu)) return "owned";
    return ["unavailable", "reserved", "isolated"].find((kind) => sets[kind].has(cpu)) || "shared";
  }

  nodesOf(cpus) {
    return [...new Set(cpus.map((cpu) => this.places.of.get(cpu)?.node))].filter((node) => node !== undefined);
  }
}

// A container that holds nothing, as the others are written; `text` is why it was refused.
function unplaced({ namespace, pod, name, workload = "", text = "" }) {
  return {
    namespace, pod, name, workload, refusal: text, pod_uid: `${namespace}/${pod}`, container_id: "", workload_kind: "Pod", qos: "",
    kind: "refused", state: "refused", pool: "", cpus: "", mems: "", exclusive: "", isolated: "", shared_mcpu: 0,
    reserved_mcpu: 0, memory_bytes: 0, devices: [], notes: [], unmet: text ? ["refused"] : [],
  };
}

function byName(a, b) {
  const [one, other] = [fullName(a), fullName(b)];
  return one < other ? -1 : one > other ? 1 : 0;
}

function ownerName(container) {
  return container.shares_pod_cpus ? `${container.namespace}/${container.pod}` : fullName(container);
}

export function ownCpus(container) {
  return parseList([container.exclusive, container.isolated].filter(Boolean).join(","));
}

function lettered(names, known) {
  const here = [...new Set(names)];
  const kept = new Map(here.filter((name) => known.get(name)).map((name) => [name, known.get(name)]));
  const used = new Set(kept.values());
  const free = [...LETTERS].filter((letter) => !used.has(letter));
  return new Map(here.map((name) => [name, kept.get(name) || free.shift() || ""]));
}

function placesOf(map) {
  const of = new Map();
  const sets = Object.fromEntries(
    ["reserved", "isolated", "unavailable", "offline"].map((name) => [name, new Set(parseList(map ? map[name] : ""))]),
  );
  for (const each of map ? map.packages : []) {
    for (const node of each.nodes) {
      for (const core of node.l3.flatMap((domain) => domain.cores)) {
        for (const cpu of parseList(core)) of.set(cpu, { package: each.id, node: node.id, core });
      }
    }
  }
  return { of, sets };
}

// The part of each CPU's time that is booked: a pool's own sharers spread over its shared CPUs, and over those of
// the reserved ones what is booked there.
function loadsOf(status) {
  const loads = new Map();
  const add = (cpus, mcpu) => {
    for (const cpu of cpus) loads.set(cpu, (loads.get(cpu) || 0) + mcpu / 1000 / cpus.length);
  };
  const below = new Map();
  for (const pool of status.pools) below.set(pool.parent, (below.get(pool.parent) || 0) + pool.shared_granted_mcpu);
  for (const pool of status.pools) {
    const own = pool.shared_granted_mcpu - (below.get(pool.name) || 0);
    if (own > 0) add(parseList(pool.shared), own);
  }
  const reserved = status.containers.reduce((sum, container) => sum + container.reserved_mcpu, 0);
  if (reserved && status.map) add(parseList(status.map.reserved), reserved);
  return loads;
}
