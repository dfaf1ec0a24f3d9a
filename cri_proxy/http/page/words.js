// Words and elements. All text of others becomes text nodes here, with what does not print escaped.

const HIDDEN = /[\p{C}\p{Zl}\p{Zp}]|(?! )\p{Zs}/gu;

// What `foreign_text.visible` does: "\u202e" would turn the text behind it around.
export function visible(text) {
  return String(text).replace(HIDDEN, (character) => {
    const code = character.codePointAt(0).toString(16);
    if (code.length <= 2) return "\\x" + code.padStart(2, "0");
    return code.length <= 4 ? "\\u" + code.padStart(4, "0") : "\\U" + code.padStart(8, "0");
  });
}

// An element with attributes and children: elements, or strings, which become text.
export function el(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value !== undefined && value !== null && value !== false) {
      element.setAttribute(name, value === true ? "" : visible(value));
    }
  }
  element.append(...children.flat().filter((child) => child !== null && child !== "").map(asNode));
  return element;
}

function asNode(child) {
  return child instanceof Node ? child : document.createTextNode(visible(child));
}

export function setText(element, text) {
  const shown = visible(text);
  if (element.textContent !== shown) element.textContent = shown;
}

// The numbers of a list such as "0-3,8".
export function parseList(list) {
  const numbers = [];
  for (const part of (list || "").split(",")) {
    if (part === "") continue;
    const [first, last = first] = part.split("-").map(Number);
    for (let number = first; number <= last; number++) numbers.push(number);
  }
  return numbers;
}

export function formatList(numbers) {
  const parts = [];
  const sorted = [...new Set(numbers)].sort((a, b) => a - b);
  for (let i = 0; i < sorted.length; ) {
    let j = i;
    while (j + 1 < sorted.length && sorted[j + 1] === sorted[j] + 1) j++;
    parts.push(i === j ? `${sorted[i]}` : `${sorted[i]}-${sorted[j]}`);
    i = j + 1;
  }
  return parts.join(",");
}

export function plural(count, word) {
  return `${count} ${word}${count === 1 ? "" : "s"}`;
}

export function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) {
    count /= 1024;
    unit++;
  }
  return `${count >= 100 ? Math.round(count) : Number(count.toFixed(1))} ${units[unit]}`;
}

// A moment where the browser is; the day where it is not today's.
export function clock(seconds) {
  const date = new Date(seconds * 1000);
  const two = (number) => String(number).padStart(2, "0");
  const day = `${date.getFullYear()}-${two(date.getMonth() + 1)}-${two(date.getDate())} `;
  return (date.toDateString() === new Date().toDateString() ? "" : day) + date.toTimeString().slice(0, 8);
}

export function fullName(container) {
  return `${container.namespace}/${container.pod}/${container.name}`;
}

// How a container uses its CPUs, as `cri-proxy status` says it.
export function useText(container) {
  const own = parseList(container.exclusive).length;
  const isolated = parseList(container.isolated).length;
  const shared = container.shared_mcpu ? `${container.shared_mcpu}m shared` : "shared";
  if (container.kind === "preserve") return "left alone";
  if (container.kind === "reserved") return container.reserved_mcpu ? `${container.reserved_mcpu}m reserved` : "reserved";
  if (container.kind === "shared") return shared;
  const parts = [];
  if (own) parts.push(`${own} exclusive`);
  if (isolated) parts.push(`${isolated} isolated`);
  if (container.kind === "mixed" || container.shared_mcpu) parts.push(shared);
  return parts.join(" + ") || container.kind;
}

const UNMET = {
  overcommitted: ["overcommitted", "no CPU time is booked for its request"],
  "cpus-wider": ["CPUs wider", "its own CPUs are on several NUMA nodes, and one has as many"],
  "memory-wider": ["memory wider", "it may use memory nodes beyond its pool's"],
  contested: ["contested", "other containers can run on its own CPUs"],
  "annotation-ignored": ["annotation ignored", "an annotation could not be read"],
};

// What is not as a container asks: pairs of a word and a sentence.
export function unmetWords(container) {
  if (container.refusal) return [["refused", container.refusal.replace(/^refused: /, "")]];
  return container.unmet.map((code) => UNMET[code] || [code, code]);
}
