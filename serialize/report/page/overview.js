// The first view: totals, what the file is made of, and a map of it.

function tile(value, label, attributes) {
  return h("div", { class: "tile", ...attributes }, h("dt", {}, label), h("dd", {}, value));
}

function tilesOf(built) {
  const bad = built.findings.filter((one) => ["error", "nan", "inf"].includes(one.id)).length;
  return h("dl", { class: "tiles" },
    tile(integer(built.tensors.length), "tensors"),
    tile(shortCount(built.totals.elements), "elements", { title: integer(built.totals.elements) }),
    tile(bytes(built.totals.bytes), "in memory", { title: count(built.totals.bytes, "byte") }),
    tile(bytes(built.totals.stored), "in the file", { title: count(built.totals.stored, "byte") }),
    h("div", { class: "tile" + (bad > 0 ? " alarm" : "") }, h("dt", {}, built.findings.length === 1 ? "finding" : "findings"),
      h("dd", {}, h("a", { href: "#health" }, integer(built.findings.length)))));
}

function shortCount(x) {
  for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (x >= size && x >= 1e4) return (x / size).toFixed(x / size < 10 ? 2 : x / size < 100 ? 1 : 0) + unit;
  }
  return integer(x);
}

// Shares of the bytes, as one bar and its table.
function shares(title, keyOf, colourOf, filter) {
  const sums = new Map();
  for (const tensor of model.tensors) {
    if (tensor.alias) continue;
    const key = keyOf(tensor);
    const sum = sums.get(key) || { bytes: 0, tensors: 0 };
    sum.bytes += tensor.bytes;
    ++sum.tensors;
    sums.set(key, sum);
  }
  const rows = [...sums].sort((x, y) => y[1].bytes - x[1].bytes);
  const total = rows.reduce((sum, row) => sum + row[1].bytes, 0);
  const bar = h("div", { class: "stacked", "aria-hidden": "true" });
  rows.forEach(([key, sum], i) => {
    const part = h("span", { title: `${visible(key)}: ${percent(sum.bytes, total)}` });
    part.style.flexGrow = String(Math.max(sum.bytes, total / 500));
    part.style.background = colourOf(key, i);
    bar.append(part);
  });
  return h("section", { class: "card" }, h("h2", {}, title), bar,
    h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, title.toLowerCase().replace(/s$/, "")),
      h("th", { scope: "col", class: "n" }, "tensors"), h("th", { scope: "col", class: "n" }, "bytes"), h("th", { scope: "col", class: "n" }, "share"))),
      h("tbody", {}, rows.slice(0, 12).map(([key, sum], i) => {
        const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
        swatch.style.background = colourOf(key, i);
        return h("tr", {}, h("td", {}, swatch, filter ? h("a", { href: filter(key) }, visible(key)) : visible(shorten(key, 60))),
          h("td", { class: "n" }, integer(sum.tensors)), h("td", { class: "n" }, bytes(sum.bytes)), h("td", { class: "n" }, percent(sum.bytes, total)));
      }))),
    rows.length > 12 && h("p", { class: "note" }, `and ${integer(rows.length - 12)} more`));
}

let dtypeColours = null;
function colourOfDType(dtype) {
  if (!dtypeColours) {
    const sums = new Map();
    for (const tensor of model.tensors) sums.set(tensor.dtype, (sums.get(tensor.dtype) || 0) + tensor.bytes);
    dtypeColours = new Map([...sums].sort((x, y) => y[1] - x[1]).map(([name], i) => [name, INK[Math.min(i, INK.length - 1)]]));
  }
  return dtypeColours.get(dtype) || INK[INK.length - 1];
}

// --- The map ---

// Names as a tree: {name, prefix, children, tensor, bytes, ...}. A node with one child is joined with it.
function treeOf(tensors) {
  const root = { name: "", prefix: "", children: new Map(), tensor: null };
  for (const tensor of tensors) {
    if (tensor.alias || tensor.bytes === 0) continue;
    let node = root;
    for (const part of tensor.name.match(/[^./]*[./]|[^./]+$/g) || [""]) {
      if (!node.children.has(part)) node.children.set(part, { name: part, prefix: node.prefix + part, children: new Map(), tensor: null });
      node = node.children.get(part);
    }
    node.tensor = tensor;
  }
  // Without recursion: a name may have thousands of parts.
  const order = [root];
  for (let i = 0; i < order.length; ++i) order.push(...order[i].children.values());
  for (const node of order.reverse()) {
    node.items = [...node.children.values()];
    if (node.tensor) node.items.push({ name: "(itself)", prefix: node.prefix, items: [], tensor: node.tensor, bytes: node.tensor.bytes, tensors: 1, sums: sumsOf(node.tensor) });
    if (node.items.length === 1) {
      const only = node.items[0];
      node.items = only.items;
      node.prefix = only.prefix;
      node.name = only.tensor && only.name === "(itself)" ? node.name : node.name + only.name;
      node.only = only.tensor || only.only || null;
      [node.bytes, node.tensors, node.sums] = [only.bytes, only.tensors, only.sums];
      continue;
    }
    node.bytes = node.items.reduce((sum, item) => sum + item.bytes, 0);
    node.tensors = node.items.reduce((sum, item) => sum + item.tensors, 0);
    node.sums = {};
    for (const key of ["squares", "finite", "zeros", "elements", "stored", "moved", "before"]) node.sums[key] = node.items.reduce((sum, item) => sum + item.sums[key], 0);
    node.sums.dtype = node.items.reduce((best, item) => (item.bytes > best.bytes ? item : best), node.items[0] || { bytes: 0, sums: {} }).sums.dtype;
  }
  return root;
}

function sumsOf(tensor) {
  return { squares: (tensor.rms || 0) ** 2 * (tensor.finite || 0), finite: tensor.finite || 0, zeros: tensor.zeros || 0,
    elements: tensor.measured ? tensor.elements : 0, stored: tensor.stored, dtype: tensor.dtype, ...movedSums(tensor.pair) };
}

// Squares of the change, and of what was there before.
function movedSums(pair) {
  const known = pair && pair.a && pair.norm !== null;
  return { moved: known ? pair.norm ** 2 : 0, before: known ? (pair.a.norm || 0) ** 2 : 0 };
}

const MEASURES = {
  moved: { title: "moved", of: "diff", value: (node) => (node.sums.before > 0 ? Math.sqrt(node.sums.moved / node.sums.before) : null), from: 0, text: (x) => movedText(x) },
  dtype: { title: "dtype", value: (node) => node.sums.dtype },
  norm: { title: "root mean square", value: (node) => (node.sums.finite > 0 ? Math.sqrt(node.sums.squares / node.sums.finite) : null), log: true },
  sparsity: { title: "part of zeros", value: (node) => (node.sums.elements > 0 ? node.sums.zeros / node.sums.elements : null), from: 0, to: 1 },
  compression: { title: "bytes in the file per byte in memory", value: (node) => (node.bytes > 0 ? node.sums.stored / node.bytes : null), from: 0, least: 1 },
};

function textOf(measure, value) {
  return measure.text && value !== null ? measure.text(value) : number(value, 3);
}

function mapCard() {
  model.tree = model.tree || treeOf(model.tensors);
  const root = model.tree;
  if (root.bytes === 0) return null;
  // One colour says nothing: of a file of one dtype the norms are shown first.
  const largest = Math.max(...[...new Set(model.tensors.map((t) => t.dtype))].map((dtype) => model.tensors.reduce((sum, t) => sum + (t.dtype === dtype ? t.bytes : 0), 0)));
  // Kept for the way back from a tensor.
  const state = (model.map = model.map || { path: [root], measure: model.pairs.some((pair) => pair.moved > 0) ? "moved" : largest < 0.95 * root.bytes ? "dtype" : "norm" });
  const place = h("div", {});
  const choose = h("select", { id: "map-colour", onchange: () => { state.measure = choose.value; show(); } },
    Object.entries(MEASURES).filter(([, measure]) => !measure.of || measure.of === model.kind).map(([key, measure]) => h("option", { value: key, selected: key === state.measure }, measure.title)));
  const crumbs = h("nav", { class: "crumbs", "aria-label": "Prefix" });
  const legend = h("div", { class: "legend" });
  const show = () => {
    const node = state.path[state.path.length - 1];
    crumbs.replaceChildren(...state.path.map((step, i) => {
      const text = i === 0 ? "all" : visible(shorten(step.name, 40)) || "(empty)";
      return i === state.path.length - 1 ? h("span", { "aria-current": "true" }, text)
        : h("button", { type: "button", class: "plain", onclick: () => { state.path.length = i + 1; show(); } }, text);
    }).flatMap((element, i) => (i === 0 ? [element] : [h("span", { class: "sep", "aria-hidden": "true" }, "›"), element])));
    crumbs.append(h("span", { class: "note" }, `${count(node.tensors, "tensor")}, ${bytes(node.bytes)}`));
    place.replaceChildren(chart((width) => treemap(node, state, width, legend, (child) => { state.path.push(child); show(); })));
  };
  show();
  return h("section", { class: "card map" }, h("div", { class: "head" }, h("h2", {}, "Map"),
    h("label", { for: "map-colour" }, "colour: ", choose)), crumbs, place, legend);
}

function treemap(node, state, width, legend, enter) {
  const height = Math.round(Math.min(460, Math.max(260, width * 0.5)));
  const measure = MEASURES[state.measure];
  const small = node.bytes / 100000;
  // A group is opened where it has much of the area.
  const wrap = (item, depth) => {
    const opens = item.items.length > 1 && item.items.length <= 400 && item.bytes > node.bytes / (depth < 2 ? 80 : 25) && depth < 5;
    const inner = opens ? item.items.filter((one) => one.bytes > small) : [];
    return { item, children: inner.length > 0 ? inner.map((one) => wrap(one, depth + 1)) : null };
  };
  const hierarchy = d3.hierarchy({ item: node, children: (node.items.length ? node.items : [node]).filter((one) => one.bytes > small).map((one) => wrap(one, 1)) });
  hierarchy.eachAfter((one) => { one.value = one.children ? one.children.reduce((sum, child) => sum + child.value, 0) : one.data.item.bytes; });
  hierarchy.sort((x, y) => y.value - x.value);
  d3.treemap().size([width, height]).paddingInner(2).paddingTop((one) => (one.depth > 0 && one.children ? 18 : 0)).paddingRight((one) => (one.depth > 0 && one.children ? 3 : 0)).paddingBottom((one) => (one.depth > 0 && one.children ? 3 : 0)).paddingLeft((one) => (one.depth > 0 && one.children ? 3 : 0)).round(true)(hierarchy);
  const leaves = hierarchy.leaves();
  let [low, high] = rangeOf(leaves.map((one) => [measure.value(one.data.item), one.data.item.bytes]).filter(([value]) => typeof value === "number" && (!measure.log || value > 0)));
  if (measure.from !== undefined) low = measure.from;
  if (measure.to !== undefined) high = measure.to;
  else if (measure.from !== undefined && high <= low) high = Math.max(...leaves.map((one) => measure.value(one.data.item) || 0)); // what moved is small
  if (measure.least !== undefined) high = Math.max(high, measure.least);
  const scale = measure.log ? (x) => (high > low ? Math.log(x / low) / Math.log(high / low) : 0.5) : (x) => (high > low ? (x - low) / (high - low) : 0.5);
  drawLegend(legend, state.measure, low, high, leaves);
  const cellOf = (one) => {
    const { item } = one.data;
    const [w, tall] = [one.x1 - one.x0, one.y1 - one.y0];
    if (w < 1 || tall < 1) return null;
    const value = measure.value(item);
    const known = state.measure === "dtype" || (typeof value === "number" && (!measure.log || value > 0));
    const channels = state.measure !== "dtype" && known ? mixed(blues(), scale(value)) : null;
    const colour = !known ? "var(--line)" : channels ? rgb(channels) : colourOfDType(value);
    const ink = channels ? inkOn(channels) : known ? "var(--on-colour)" : "var(--text)";
    const most = Math.floor((w - 8) / 6.7);
    const tensor = item.tensor || item.only;
    const label = `${visible(shorten(item.prefix, 300))}: ${bytes(item.bytes)}${item.tensors > 1 ? `, ${count(item.tensors, "tensor")}` : ""}` +
      (state.measure === "dtype" ? `, ${value}` : `, ${measure.title} ${textOf(measure, value)}`);
    const shown = [svg("rect", { x: one.x0, y: one.y0, width: w, height: tall, fill: colour, rx: Math.min(2, tall / 5) }), svg("title", {}, label),
      most >= 4 && tall >= 16 && svg("text", { x: one.x0 + 4, y: one.y0 + 13, fill: ink }, shorten(visible(item.name) || "(empty)", most)),
      most >= 7 && tall >= 32 && svg("text", { x: one.x0 + 4, y: one.y0 + 27, fill: ink, class: "sub" }, bytes(item.bytes))];
    if (tensor && item.tensors === 1) return svg("a", { href: tensor.link }, shown);
    const go = () => enter(item);
    return svg("g", { role: "button", tabindex: 0, class: "cell", onclick: go,
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(); } } }, shown);
  };
  const groupOf = (one) => {
    const { item } = one.data;
    const most = Math.floor((one.x1 - one.x0 - 8) / 6.7);
    const label = `${visible(shorten(item.prefix, 300))}: ${bytes(item.bytes)}, ${count(item.tensors, "tensor")}`;
    const go = () => enter(item);
    return svg("g", { role: "button", tabindex: 0, class: "group", onclick: go,
      onkeydown: (event) => { if (event.key === "Enter" || event.key === " ") { event.preventDefault(); go(); } } },
      svg("rect", { class: "groupback", x: one.x0, y: one.y0, width: Math.max(one.x1 - one.x0, 0), height: Math.max(one.y1 - one.y0, 0), rx: 3 }), svg("title", {}, label),
      most >= 3 && one.y1 - one.y0 >= 16 && svg("text", { x: one.x0 + 4, y: one.y0 + 13, class: "grouplabel" }, shorten(visible(item.name), most)));
  };
  const cells = [];
  hierarchy.eachBefore((one) => { if (one.depth > 0) cells.push(one.children ? groupOf(one) : cellOf(one)); });
  const picture = canvasOf(width, height, `Map of ${count(node.tensors, "tensor")} by prefix; the area is the bytes in memory`, cells.filter(Boolean));
  picture.setAttribute("role", "group");
  picture.classList.add("treemap");
  return picture;
}

// The range of [value, bytes] without the smallest and the largest 1 % of the bytes: one odd bias does not hide the rest.
function rangeOf(values) {
  if (values.length === 0) return [0, 1];
  values.sort((x, y) => x[0] - y[0]);
  const total = values.reduce((sum, one) => sum + one[1], 0);
  const at = (part) => {
    let sum = 0;
    return values.find((one) => (sum += one[1]) >= part * total)[0];
  };
  return [at(0.01), at(0.99)];
}

function drawLegend(legend, measure, low, high, leaves) {
  if (measure === "dtype") {
    const names = [...new Set(leaves.map((one) => one.data.item.sums.dtype))];
    legend.replaceChildren(...names.map((name) => {
      const swatch = h("span", { class: "swatch", "aria-hidden": "true" });
      swatch.style.background = colourOfDType(name);
      return h("span", { class: "key" }, swatch, name);
    }));
    return;
  }
  const bar = h("span", { class: "ramp", "aria-hidden": "true" });
  bar.style.background = `linear-gradient(to right, ${blues().join(",")})`;
  legend.replaceChildren(h("span", {}, textOf(MEASURES[measure], low)), bar, h("span", {}, textOf(MEASURES[measure], high)), h("span", { class: "note" }, MEASURES[measure].title));
}

// --- What the file has beside its tensors ---

function filesCard() {
  const rows = model.archives.flatMap((archive, i) => archive.files.map(([path, size], shard) => {
    const tensors = archive.tensors.filter((tensor) => (archive.files.length === 1 ? true : tensor.shard === shard) && !tensor.alias);
    return h("tr", {}, model.archives.length > 1 && h("td", {}, "AB"[i]), h("td", { class: "path" }, nameOf(path)),
      h("td", { class: "n" }, bytes(size)), h("td", { class: "n" }, archive.files.length === 1 ? integer(tensors.length) : tensors.length ? integer(tensors.length) : NONE));
  }));
  return h("section", { class: "card" }, h("h2", {}, "Files"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Files" }, h("table", { class: "plain" },
    h("thead", {}, h("tr", {}, model.archives.length > 1 && h("th", { scope: "col" }, "side"), h("th", { scope: "col" }, "path"), h("th", { scope: "col", class: "n" }, "size"), h("th", { scope: "col", class: "n" }, "tensors"))),
    h("tbody", {}, rows.slice(0, 200)))), rows.length > 200 && h("p", { class: "note" }, `and ${integer(rows.length - 200)} more`));
}

function metadataCards() {
  return model.archives.map((archive, i) => {
    const entries = Object.entries(archive.metadata || {});
    const side = model.archives.length > 1 ? ` of ${"AB"[i]}` : "";
    let values = archive.values;
    // What is a tensor under its own name is in the table.
    if (values && typeof values === "object" && !Array.isArray(values)) values = Object.fromEntries(Object.entries(values).filter(([key, value]) => tensorOf(value) !== key));
    const nested = values && typeof values === "object" && !Array.isArray(values) ? Object.keys(values).length : values ? 1 : 0;
    if (entries.length === 0 && nested === 0 && archive.notes.length === 0) return null;
    return h("section", { class: "card" }, h("h2", {}, "Metadata" + side),
      archive.notes.map((note) => h("p", { class: "note" }, visible(note))),
      entries.length > 0 ? h("table", { class: "plain keys" }, h("thead", { class: "unseen" }, h("tr", {}, h("th", { scope: "col" }, "key"), h("th", { scope: "col" }, "value"))),
        h("tbody", {}, entries.slice(0, 300).map(([key, value]) => h("tr", {}, h("th", { scope: "row" }, nameOf(shorten(key, 300))), h("td", {}, longText(value))))))
        : nested > 0 && h("div", { class: "tree" }, valueTree(values, 0)),
      entries.length > 300 && h("p", { class: "note" }, `and ${integer(entries.length - 300)} more`));
  }).filter(Boolean);
}

function longText(text) {
  const shown = visible(text.replace(/\r?\n/g, "\u2424")).replace(/\u2424/g, "\n");
  if (shown.length <= 200) return h("bdi", { class: "value" }, shown);
  return h("details", {}, h("summary", {}, h("bdi", {}, shown.slice(0, 120) + "…"), h("span", { class: "note" }, ` ${integer(text.length)} characters`)),
    h("pre", { tabindex: 0 }, shown.slice(0, 100000)));
}

// The name of the tensor that a value is (serialize/values/value_json.h), or null.
function tensorOf(value) {
  return value !== null && typeof value === "object" && typeof value.tensor === "string" && Object.keys(value).length === 1 ? value.tensor : null;
}

function valueTree(value, depth) {
  const tensor = tensorOf(value);
  if (tensor !== null) return h("a", { href: tensorLink(tensor) }, "tensor ", nameOf(shorten(tensor, 200)));
  if (value === null || typeof value !== "object") return h("bdi", { class: "value" }, visible(shorten(String(value), 2000)));
  const items = Object.entries(value);
  const list = h("ul", {}, items.slice(0, 500).map(([key, item]) => {
    const inside = item !== null && typeof item === "object" && Object.keys(item).length > 0 && tensorOf(item) === null;
    if (!inside) return h("li", {}, nameOf(shorten(key, 200)), ": ", valueTree(item, depth + 1));
    const details = h("details", { ontoggle: () => {
      // Made when it is opened: a tree may be deep and wide.
      if (details.open && details.childElementCount === 1) details.append(valueTree(item, depth + 1));
    } }, h("summary", {}, nameOf(shorten(key, 200)), h("span", { class: "note" }, ` ${Array.isArray(item) ? count(item.length, "item") : count(Object.keys(item).length, "value")}`)));
    return h("li", {}, details);
  }));
  if (items.length > 500) list.append(h("li", { class: "note" }, `and ${integer(items.length - 500)} more`));
  return list;
}

// What a reader of two files asks first.
function movedOverview() {
  const moved = movedPairs();
  return moved.length > 0 && h("div", { class: "columns first" }, movedCards(moved, 5));
}

function overviewView() {
  const archive = model.archives[model.archives.length - 1];
  const encodings = new Set(model.tensors.map((tensor) => tensor.encoding));
  const title = model.kind === "diff" ? [nameOf(fileName(model.archives[0].path)), h("span", { class: "versus" }, " → "), nameOf(fileName(archive.path))]
    : model.kind === "run" ? [nameOf(fileName(archive.path)), h("span", { class: "versus" }, `, the last of ${count(model.run.steps.length, "step")}`)] : [nameOf(fileName(archive.path))];
  return [
    h("h1", { class: "path" }, title),
    h("p", { class: "subtitle" }, model.archives.map((one) => one.format).filter((format, i, all) => all.indexOf(format) === i).join(" and "), " · ",
      model.kind === "diff" ? [nameOf(model.archives[0].path), " → ", nameOf(archive.path)] : nameOf(archive.path)),
    model.tensors.length === 0 && h("p", { class: "card empty" }, "The file has no tensors."),
    tilesOf(model),
    model.kind === "diff" && [changeTiles(), movedOverview()],
    model.kind === "run" && jumpsCard(5),
    mapCard(),
    h("div", { class: "columns" },
      model.tensors.length > 0 && shares("dtypes", (tensor) => tensor.dtype || "unknown", colourOfDType, (key) => "#tensors?dtype=" + encodeURIComponent(key)),
      encodings.size > 1 && shares("encodings", (tensor) => tensor.encoding || "plain", (_, i) => INK[Math.min(i + 2, INK.length - 1)], null),
      filesCard(), metadataCards()),
  ];
}
