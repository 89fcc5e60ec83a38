// Elements, and text of numbers and names. Text from files reaches the page only as text nodes.

const NONE = "–";

// h("p", {class: "note"}, "text", child): an element. A key that begins with "on" is a listener.
function h(tag, attributes, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

function svg(tag, attributes, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

function fill(element, attributes, children) {
  for (const [key, value] of Object.entries(attributes || {})) {
    if (value === false || value === null || value === undefined) continue;
    if (key.startsWith("on")) element.addEventListener(key.slice(2), value);
    else element.setAttribute(key, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

// A name with characters that are not seen, or that turn the direction of text, as escapes.
function visible(text) {
  return text.replace(/[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) => {
    const code = c.codePointAt(0).toString(16);
    return code.length <= 2 ? "\\x" + code.padStart(2, "0") : "\\u" + code.padStart(4, "0");
  });
}

// A name as an element: it keeps its direction to itself.
function nameOf(text) {
  return h("bdi", { class: "name" }, visible(text) || "(empty name)");
}

function shorten(text, most) {
  return text.length <= most ? text : text.slice(0, most - 1) + "…";
}

// A long name without its middle: names of one family differ at the end.
function middle(text, most) {
  return text.length <= most ? text : `${text.slice(0, Math.floor(most / 3))}…${text.slice(-Math.ceil((2 * most) / 3) + 1)}`;
}

function number(x, digits = 4) {
  if (x === null || x === undefined || Number.isNaN(x)) return NONE;
  if (x === 0) return "0";
  if (!Number.isFinite(x)) return x > 0 ? "∞" : "−∞";
  const size = Math.abs(x);
  if (Number.isInteger(x) && size < 1e6) return integer(x);
  const text = size >= 1e6 || size < 1e-3 ? x.toExponential(digits - 1).replace(/\.?0+e/, "e").replace("e+", "e")
    : size >= 1e4 ? Number(x.toPrecision(digits)).toLocaleString("en-US", { maximumFractionDigits: digits }) : String(Number(x.toPrecision(digits)));
  return text.replace(/-/g, "−");
}

function integer(x) {
  return x === null || x === undefined ? NONE : x.toLocaleString("en-US").replace("-", "−");
}

function bytes(x) {
  if (x === null || x === undefined) return NONE;
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (x >= 1024 && unit < units.length - 1) {
    x /= 1024;
    ++unit;
  }
  return `${unit === 0 ? x : x.toFixed(x < 10 ? 2 : x < 100 ? 1 : 0)} ${units[unit]}`;
}

function count(x, one, many = one + "s") {
  return `${integer(x)} ${x === 1 ? one : many}`;
}

function percent(part, whole) {
  if (!whole) return NONE;
  const share = (100 * part) / whole;
  if (share > 99.9 && share < 100) return "> 99.9 %";
  return share === 0 ? "0 %" : share < 0.1 ? "< 0.1 %" : `${share.toFixed(share < 10 || (share > 99 && share < 100) ? 1 : 0)} %`;
}

function shapeText(dims) {
  return `[${dims.join(", ")}]`;
}

function fileName(path) {
  return path.replace(/\/+$/, "").split("/").pop() || path;
}

// A word of a POSIX shell, without control characters, which could act on a terminal into which it is pasted.
function shellWord(text) {
  if (/^[\w@%+=:,./-]+$/.test(text)) return text;
  if (visible(text) === text) return `'${text.replace(/'/g, "'\\''")}'`;
  const escaped = text.replace(/[\\']/g, "\\$&").replace(/[^\x20-\x7e\u00a1-\uffff]|[\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g, (c) =>
    Array.from(new TextEncoder().encode(c), (byte) => "\\x" + byte.toString(16).padStart(2, "0")).join(""));
  return `$'${escaped}'`;
}

function csvField(value) {
  const text = value === null || value === undefined ? "" : String(value);
  // A spreadsheet takes a field that begins so for a formula.
  const safe = /^[=+@\t\r]|^-(?![\d.])/.test(text) ? "'" + text : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replace(/"/g, '""')}"` : safe;
}

// Classes of characters in patterns of the tool (tensor/base/glob.h).
const GLOB_CLASSES = { alnum: "A-Za-z0-9", alpha: "A-Za-z", blank: " \\t", cntrl: "\\x00-\\x1f\\x7f", digit: "0-9", graph: "!-~", lower: "a-z",
  print: " -~", punct: "!-/:-@\\[-`{-~", space: " \\t-\\r", upper: "A-Z", xdigit: "0-9A-Fa-f" };

// The set of a pattern behind its "[": [regular expression, place behind the "]"], or null without a "]".
function globSet(glob, start) {
  let i = start;
  let pattern = "";
  if (glob[i] === "!" || glob[i] === "^") { pattern = "^"; ++i; }
  const first = i;
  while (i < glob.length && (glob[i] !== "]" || i === first)) {
    const named = /^\[:(\w+):\]/.exec(glob.slice(i));
    if (named && named[1] in GLOB_CLASSES) {
      pattern += GLOB_CLASSES[named[1]];
      i += named[0].length;
      continue;
    }
    if (glob[i] === "-" && i > first && i + 1 < glob.length && glob[i + 1] !== "]") { pattern += "-"; ++i; continue; }
    if (glob[i] === "\\" && i + 1 < glob.length) ++i;
    const c = String.fromCodePoint(glob.codePointAt(i));
    pattern += c.replace(/[\\\]^[-]/, "\\$&");
    i += c.length;
  }
  return i < glob.length ? [`[${pattern}]`, i + 1] : null;
}

// A pattern of the tool as a regular expression.
function globPattern(glob) {
  let pattern = "";
  for (let i = 0; i < glob.length; ++i) {
    const set = glob[i] === "[" ? globSet(glob, i + 1) : null;
    if (glob[i] === "*") pattern += "[^]*";
    else if (glob[i] === "?") pattern += "[^]";
    else if (set) {
      pattern += set[0];
      i = set[1] - 1;
    } else {
      if (glob[i] === "\\" && i + 1 < glob.length) ++i;
      pattern += glob[i].replace(/[.+^${}()|[\]\\/*?]/, "\\$&");
    }
  }
  return new RegExp(`^${pattern}$`, "u");
}

// The pattern of the tool that matches this name. Bytes that are not UTF-8 are U+FFFD in the page.
function globOf(name) {
  return name.replace(/[*?[\]\\]/g, "\\$&").replace(/\ufffd/g, "?");
}

async function copyText(text, what) {
  let done = false;
  try {
    await navigator.clipboard.writeText(text);
    done = true;
  } catch (error) {
    const area = h("textarea", { "aria-hidden": "true" });
    area.value = text;
    document.body.append(area);
    area.select();
    done = document.execCommand("copy");
    area.remove();
  }
  announce(done ? `Copied ${what}` : "This browser does not let a page copy");
}

let announceTimer = 0;
function announce(text) {
  const place = document.getElementById("status");
  place.textContent = text;
  place.classList.add("shown");
  clearTimeout(announceTimer);
  announceTimer = setTimeout(() => place.classList.remove("shown"), 2500);
}
