// All tensors as a table. Only the rows that are seen are in the document.

const ROW_HEIGHT = 30;

// id, heading, value for sorting and CSV, text, and whether it is a number.
const COLUMNS = [
  { id: "name", title: "name", value: (t) => t.name },
  { id: "dtype", title: "dtype", value: (t) => (t.pair && t.pair.otherDType ? `${t.pair.a.dtype} → ${t.pair.b.dtype}` : t.dtype) },
  { id: "shape", title: "shape", value: (t) => (t.pair && t.pair.kind === "shape" ? `${t.pair.a.shape} → ${t.pair.b.shape}` : t.shape), order: (t) => t.elements },
  { id: "elements", title: "elements", value: (t) => t.elements, text: (t) => integer(t.elements) },
  { id: "bytes", title: "bytes", value: (t) => t.bytes, text: (t) => bytes(t.bytes) },
  { id: "stored", title: "in the file", value: (t) => t.stored, text: (t) => bytes(t.stored), optional: true },
  { id: "ratio", title: "file / memory", value: (t) => t.ratio, text: (t) => number(t.ratio, 3), optional: true },
  { id: "encoding", title: "encoding", value: (t) => t.encoding, optional: true },
  { id: "min", title: "min", value: (t) => t.min },
  { id: "max", title: "max", value: (t) => t.max },
  { id: "mean", title: "mean", value: (t) => t.mean },
  { id: "spread", title: "std", value: (t) => t.spread },
  { id: "norm", title: "norm", value: (t) => t.norm },
  { id: "rms", title: "rms", value: (t) => t.rms, optional: true },
  { id: "zeros", title: "zeros", value: (t) => t.sparsity, text: (t) => (t.measured ? percent(t.zeros, t.elements) : NONE) },
  { id: "nans", title: "NaN", value: (t) => t.nans, text: (t) => (t.measured ? integer(t.nans) : NONE) },
  { id: "infinities", title: "Inf", value: (t) => t.infinities, text: (t) => (t.measured ? integer(t.infinities) : NONE), optional: true },
  { id: "subnormals", title: "subnormal", value: (t) => t.subnormals, text: (t) => (t.measured ? integer(t.subnormals) : NONE), optional: true },
  { id: "saturated", title: "saturated", value: (t) => t.saturated, text: (t) => (t.measured ? integer(t.saturated) : NONE), optional: true },
  { id: "deadRows", title: "dead rows", value: (t) => (t.deadRows >= 0 ? t.deadRows : null), optional: true },
  { id: "deadColumns", title: "dead columns", value: (t) => (t.deadColumns >= 0 ? t.deadColumns : null), optional: true },
  { id: "shard", title: "file number", value: (t) => (t.shard >= 0 ? t.shard : null), optional: true },
  { id: "offset", title: "offset", value: (t) => (t.offset >= 0 ? t.offset : null), text: (t) => (t.offset >= 0 ? integer(t.offset) : NONE), optional: true },
  { id: "problems", title: "findings", value: (t) => (t.problems || []).length, optional: true },
  { id: "kind", title: "change", of: "diff", value: (t) => kindsOf(t.pair).map((kind) => CHANGE_WORDS[kind]).join(", ") },
  { id: "moved", title: "moved", of: "diff", value: (t) => t.pair.moved, text: (t) => (t.pair.moved === null ? NONE : movedText(t.pair.moved)) },
  { id: "different", title: "elements that differ", of: "diff", value: (t) => t.pair.different, text: (t) => integer(t.pair.different) },
  { id: "maxAbsolute", title: "largest |a − b|", of: "diff", value: (t) => t.pair.maxAbsolute },
  { id: "maxRelative", title: "largest relative", of: "diff", value: (t) => t.pair.maxRelative, optional: true },
  { id: "jump", title: "largest jump", of: "run", value: (t) => jumpOf(t.series), text: (t) => (jumpOf(t.series) === null ? NONE : factorText(jumpOf(t.series))) },
  { id: "change", title: "last change", of: "run", value: (t) => (t.series ? t.series.changes[t.series.changes.length - 1] : null) },
];
const TEXTS = new Set(["name", "dtype", "shape", "encoding", "kind"]);

const tableState = { query: "", mode: "text", dtype: "", problem: "", kind: "", sort: "name", down: false, columns: null };

function columnsOfKind() {
  return COLUMNS.filter((column) => !column.of || column.of === model.kind);
}

function shownColumns() {
  if (!tableState.columns) {
    const own = model.kind !== "file" ? ["zeros", "nans", "mean", "elements", "min", "max", "spread"] : [];
    tableState.columns = new Set(columnsOfKind().filter((column) => !column.optional && !own.includes(column.id)).map((column) => column.id));
  }
  return columnsOfKind().filter((column) => tableState.columns.has(column.id));
}

// A function that says whether the name of a tensor matches, or the message of a bad pattern.
function matcher(query, mode) {
  if (query === "") return () => true;
  if (mode === "text") {
    const words = query.toLowerCase().split(/\s+/).filter(Boolean);
    return (tensor) => words.every((word) => tensor.lowerName.includes(word));
  }
  try {
    const pattern = mode === "glob" ? globPattern(query) : new RegExp(query, "u");
    return (tensor) => pattern.test(tensor.name) || (mode === "glob" && tensor.name === query);
  } catch (error) {
    return mode === "glob" ? "This is not a pattern: [z-a] has its letters the wrong way round." : "This is not a regular expression.";
  }
}

// All tensors in the order of the table. Kept: a search of 100,000 names does not sort them again.
let sorted = { by: null, tensors: null };
function sortedTensors() {
  const by = `${tableState.sort} ${tableState.down}`;
  if (sorted.by !== by) sorted = { by, tensors: sortTensors() };
  return sorted.tensors;
}

function chosenTensors() {
  const matches = matcher(tableState.query, tableState.mode);
  if (typeof matches === "string") return matches;
  const { dtype, problem, kind } = tableState;
  return sortedTensors().filter((t) => matches(t) && (dtype === "" || t.dtype === dtype) &&
    (problem === "" || (t.problems || []).some((one) => problem === "any" || one.id === problem)) && (kind === "" || kindsOf(t.pair).includes(kind)));
}

function sortTensors() {
  const column = columnsOfKind().find((one) => one.id === tableState.sort) || COLUMNS[0];
  const key = column.order || column.value;
  const sign = tableState.down ? -1 : 1;
  const keyed = model.tensors.map((tensor) => [key(tensor), tensor]);
  const missing = (x) => x === null || x === undefined || x === "";
  keyed.sort(([x, first], [y, second]) => {
    if (missing(x) || missing(y)) return missing(x) - missing(y) || first.index - second.index; // last in both directions
    return (x < y ? -1 : x > y ? 1 : 0) * sign || first.index - second.index;
  });
  return keyed.map(([, tensor]) => tensor);
}

function tableView(parameters) {
  for (const key of ["query", "dtype", "problem", "kind"]) tableState[key] = parameters.get(key === "query" ? "q" : key) || "";
  tableState.mode = ["text", "glob", "regex"].includes(parameters.get("mode")) ? parameters.get("mode") : parameters.has("q") ? "text" : tableState.mode;
  if (columnsOfKind().some((column) => column.id === parameters.get("sort"))) {
    tableState.sort = parameters.get("sort");
    tableState.down = parameters.get("order") === "down";
  }
  let rows = [];
  let active = 0;
  const search = h("input", { type: "search", id: "search", placeholder: "Search names", "aria-label": "Search names", spellcheck: "false", autocomplete: "off" });
  search.value = tableState.query;
  const option = (value, text, chosen) => h("option", { value, selected: value === chosen }, text);
  const mode = h("select", { id: "mode", "aria-label": "How to search" }, option("text", "contains", tableState.mode), option("glob", "glob", tableState.mode), option("regex", "regex", tableState.mode));
  const dtypes = [...new Set(model.tensors.map((t) => t.dtype))].sort();
  const dtype = h("select", { id: "dtype", "aria-label": "dtype" }, option("", "all dtypes", tableState.dtype), dtypes.map((one) => option(one, one || "unknown", tableState.dtype)));
  const problems = CHECKS.filter((check) => model.findings.some((one) => one.id === check.id));
  const problem = h("select", { id: "problem", "aria-label": "Findings" }, option("", "any health", tableState.problem), option("any", "with findings", tableState.problem),
    problems.map((check) => option(check.id, check.title, tableState.problem)));
  const kinds = model.kind === "diff" ? [...new Set(model.pairs.flatMap(kindsOf))].sort() : [];
  const kind = h("select", { id: "kind", "aria-label": "Change" }, option("", "all changes", tableState.kind), kinds.map((one) => option(one, CHANGE_WORDS[one], tableState.kind)));
  const found = h("span", { class: "found", id: "found", "aria-live": "polite" });
  const head = h("tr", {});
  const body = h("tbody", {});
  const table = h("table", { class: "tensors", "aria-label": "Tensors" }, h("thead", {}, head), body);
  const frame = h("div", { class: "frame", tabindex: 0, role: "region", "aria-label": "Tensors: arrow keys choose a row, Enter opens it" }, table);

  const columnBoxes = h("div", { class: "popover" }, columnsOfKind().filter((column) => column.id !== "name").map((column) => {
    const box = h("input", { type: "checkbox", id: "column-" + column.id, checked: shownColumns().includes(column),
      onchange: () => { tableState.columns[box.checked ? "add" : "delete"](column.id); drawHead(); forgetWidths(); draw(true); } });
    return h("label", { for: box.id }, box, " ", column.title);
  }));

  function drawHead() {
    head.replaceChildren(...shownColumns().map((column, i) => {
      const sorted = tableState.sort === column.id;
      const button = h("button", { type: "button", class: "sort", onclick: () => {
        tableState.down = tableState.sort === column.id ? !tableState.down : !TEXTS.has(column.id);
        tableState.sort = column.id;
        drawHead();
        update();
        [...head.querySelectorAll("button")][i].focus();
      } }, column.title, h("span", { "aria-hidden": "true", class: "arrow" }, sorted ? (tableState.down ? " ▼" : " ▲") : ""));
      return h("th", { scope: "col", class: TEXTS.has(column.id) ? "" : "n", "data-column": column.id,
        "aria-sort": sorted ? (tableState.down ? "descending" : "ascending") : "none" }, button);
    }));
  }

  function rowOf(tensor, i) {
    return h("tr", { "aria-rowindex": i + 2, class: i === active ? "active" : "", "data-index": i, onclick: (event) => {
      if (!event.target.closest("a") && String(getSelection()) === "") location.hash = tensor.link;
    } }, shownColumns().map((column) => {
      if (column.id === "name") {
        const worst = (tensor.problems || []).map((one) => CHECKS.find((check) => check.id === one.id).level);
        const level = ["bad", "warn"].find((one) => worst.includes(one));
        return h("th", { scope: "row" }, h("a", { href: tensor.link, title: visible(shorten(tensor.name, 400)) }, nameOf(innerWidth < 640 ? middle(tensor.name, 26) : shorten(tensor.name, 300))),
          level && h("span", { class: "level " + level, title: LEVELS[level][1] }, " ", LEVELS[level][0]));
      }
      if (column.id === "kind") return h("td", {}, badgesOf(tensor.pair));
      const value = column.value(tensor);
      return h("td", { class: TEXTS.has(column.id) ? "" : "n" }, column.text ? column.text(tensor) : TEXTS.has(column.id) ? visible(shorten(value, 200)) : number(value));
    }));
  }

  // Columns get wider while the table is scrolled, and never narrower: they would jump.
  const widths = new Map();
  function keepWidths() {
    const cells = [...head.children];
    const now = cells.map((cell) => cell.offsetWidth);
    cells.forEach((cell, i) => {
      if (now[i] <= (widths.get(cell.dataset.column) || 0)) return;
      widths.set(cell.dataset.column, now[i]);
      cell.style.minWidth = now[i] + "px";
    });
  }
  function forgetWidths() {
    widths.clear();
    for (const cell of head.children) cell.style.minWidth = "";
  }

  let drawn = [-1, -1];
  function draw(force, all = 0) {
    const height = frame.clientHeight || 600;
    const first = all ? 0 : Math.max(0, Math.floor(frame.scrollTop / ROW_HEIGHT) - 12);
    const end = all ? Math.min(rows.length, all) : Math.min(rows.length, Math.ceil((frame.scrollTop + height) / ROW_HEIGHT) + 12);
    if (!force && first === drawn[0] && end === drawn[1]) return;
    drawn = [first, end];
    const spacer = (n) => {
      if (n <= 0) return null;
      const row = h("tr", { class: "spacer", "aria-hidden": "true" }, h("td", { colspan: shownColumns().length }));
      row.style.height = `${n * ROW_HEIGHT}px`;
      return row;
    };
    table.setAttribute("aria-rowcount", rows.length + 1);
    body.replaceChildren(...[spacer(first), ...rows.slice(first, end).map((tensor, i) => rowOf(tensor, first + i)), all ? null : spacer(rows.length - end)].filter(Boolean));
    if (!all) requestAnimationFrame(keepWidths);
    if (rows.length === 0) body.replaceChildren(h("tr", { class: "none" }, h("td", { colspan: shownColumns().length }, model.tensors.length === 0 ? "The file has no tensors." : "No tensor matches.")));
  }

  function update() {
    Object.assign(tableState, { query: search.value, mode: mode.value, dtype: dtype.value, problem: problem.value, kind: kind.value });
    forgetWidths();
    const chosen = chosenTensors();
    search.setAttribute("aria-invalid", String(typeof chosen === "string"));
    rows = typeof chosen === "string" ? [] : chosen;
    active = Math.min(active, Math.max(rows.length - 1, 0));
    found.textContent = typeof chosen === "string" ? chosen : rows.length === model.tensors.length ? count(rows.length, "tensor") : `${integer(rows.length)} of ${count(model.tensors.length, "tensor")}`;
    model.order = rows;
    const query = new URLSearchParams();
    if (tableState.query) query.set("q", tableState.query);
    if (tableState.query && tableState.mode !== "text") query.set("mode", tableState.mode);
    for (const key of ["dtype", "problem", "kind"]) if (tableState[key]) query.set(key, tableState[key]);
    if (tableState.sort !== "name" || tableState.down) { query.set("sort", tableState.sort); if (tableState.down) query.set("order", "down"); }
    const text = String(query);
    model.tableLink = "#tensors" + (text ? "?" + text : "");
    if (location.protocol !== "about:") history.replaceState(null, "", model.tableLink);
    draw(true);
  }

  function move(to) {
    active = Math.min(Math.max(to, 0), rows.length - 1);
    const top = active * ROW_HEIGHT;
    const room = frame.clientHeight - 2 * ROW_HEIGHT;
    if (top < frame.scrollTop) frame.scrollTop = top;
    else if (top > frame.scrollTop + room) frame.scrollTop = top - room;
    draw(true);
    if (rows[active]) announceRow(rows[active]);
  }
  const announceRow = (tensor) => { document.getElementById("row").textContent = `${visible(shorten(tensor.name, 200))}, ${tensor.dtype} ${tensor.shape}`; };
  frame.addEventListener("keydown", (event) => {
    if (event.target !== frame) return;
    const page = Math.max(1, Math.floor(frame.clientHeight / ROW_HEIGHT) - 2);
    const steps = { ArrowDown: active + 1, ArrowUp: active - 1, PageDown: active + page, PageUp: active - page, Home: 0, End: rows.length - 1 };
    if (event.key in steps) { event.preventDefault(); move(steps[event.key]); }
    else if (event.key === "Enter" && rows[active]) location.hash = rows[active].link;
  });
  frame.addEventListener("scroll", () => draw(false), { passive: true });
  // A field that loses the focus tells of a change once more: rows that are made anew under the pointer get no click.
  for (const [element, event] of [[search, "input"], [mode, "change"], [dtype, "change"], [problem, "change"], [kind, "change"]]) {
    element.addEventListener(event, () => { active = 0; frame.scrollTop = 0; update(); });
  }
  search.addEventListener("keydown", (event) => { if (event.key === "ArrowDown" || event.key === "Enter") { event.preventDefault(); frame.focus(); } });
  tableView.print = (on) => { forgetWidths(); draw(true, on ? 500 : 0); };

  const copyCsv = () => {
    const columns = shownColumns();
    const lines = [columns.map((column) => csvField(column.title)), ...rows.map((tensor) => columns.map((column) => csvField(column.value(tensor))))];
    copyText(lines.map((line) => line.join(",")).join("\r\n") + "\r\n", count(rows.length, "row") + " as CSV");
  };
  const copyCommand = () => {
    if (rows.length === 0) { announce("There is no tensor to name"); return; }
    const [command, named] = commandFor(rows);
    copyText(command, named < rows.length ? `a command for the first ${integer(named)} of ${count(rows.length, "tensor")}` : `a command for ${count(rows.length, "tensor")}`);
  };
  queueMicrotask(() => { drawHead(); update(); frame.scrollTop = tableState.scroll || 0; draw(true); });
  tableView.leave = () => { tableState.scroll = frame.scrollTop; };
  return [
    h("h1", { class: "unseen" }, "Tensors"),
    h("div", { class: "toolbar" }, search, mode, dtype, problems.length > 0 && problem, kinds.length > 1 && kind, found,
      h("span", { class: "push" }), h("details", { class: "menu" }, h("summary", {}, "Columns"), columnBoxes),
      h("button", { type: "button", onclick: copyCsv }, "Copy CSV"), h("button", { type: "button", onclick: copyCommand, title: "For a shell: the tensors of this table" }, "Copy command")),
    frame,
  ];
}

const MOST_COMMAND = 100000; // characters: a system takes 128 KiB of one word, and 2 MiB of all

// The command of the tool that lists these tensors, and how many of them.
function commandFor(rows) {
  const isDiff = model.kind === "diff";
  const options = isDiff ? ["--cast", ...model.rename.flatMap((rule) => ["--rename", shellWord(rule)])] : [];
  const paths = model.archives.map((archive) => archive.path);
  const isGlob = tableState.mode === "glob" && tableState.query && !tableState.dtype && !tableState.problem && !tableState.kind;
  let words = rows.length === model.tensors.length ? model.include : isGlob && model.include.length === 0 ? [tableState.query] : null;
  let named = rows.length;
  if (words === null) {
    words = [];
    let size = 0;
    for (const tensor of rows) {
      words.push(globOf(tensor.name));
      size += shellWord(words[words.length - 1]).length + 1;
      if (size > MOST_COMMAND) { words.pop(); break; }
    }
    named = words.length;
  }
  const operands = [...paths, ...words];
  // A word that begins with "-" is none of the options.
  if (operands.some((word) => word.startsWith("-"))) options.push("--");
  return [["tensorcask", isDiff ? "diff" : "stats", ...options, ...operands.map(shellWord)].join(" "), named];
}
