// What differs between two files.

const CHANGE_WORDS = { equal: "equal", values: "changed", added: "added", removed: "removed", dtype: "other dtype", shape: "other shape", error: "unreadable" };

// What changed of a tensor. Tensors are compared by value: another dtype may come alone, or with other values.
function kindsOf(pair) {
  return pair.otherDType && pair.kind !== "dtype" ? [...(pair.kind === "equal" ? [] : [pair.kind]), "dtype"] : [pair.kind];
}

function badgesOf(pair) {
  return kindsOf(pair).flatMap((kind, i) => [i > 0 && " ", h("span", { class: "badge " + kind }, CHANGE_WORDS[kind])]);
}

function changeTiles() {
  const counts = (kind) => model.pairs.filter((pair) => kindsOf(pair).includes(kind)).length;
  return h("dl", { class: "tiles changes" }, Object.keys(CHANGE_WORDS).map((kind) => {
    const n = counts(kind);
    return n === 0 && ["error", "dtype", "shape"].includes(kind) ? null
      : tile(n > 0 ? h("a", { href: "#tensors?kind=" + kind }, integer(n)) : "0", CHANGE_WORDS[kind]);
  }));
}

function movedPairs() {
  return model.pairs.filter((pair) => pair.moved > 0).sort((x, y) => y.moved - x.moved || y.norm - x.norm);
}

function movedLayers() {
  const layers = new Map();
  for (const pair of model.pairs) {
    if (pair.norm === null || !pair.a) continue;
    const key = layerOf(pair.shown.name);
    const sum = layers.get(key) || { squares: 0, before: 0, tensors: 0 };
    sum.squares += pair.norm ** 2;
    sum.before += (pair.a.norm || 0) ** 2;
    ++sum.tensors;
    layers.set(key, sum);
  }
  return [...layers].map(([name, sum]) => ({ name, tensors: sum.tensors, value: sum.before > 0 ? Math.sqrt(sum.squares / sum.before) : sum.squares > 0 ? Infinity : 0 }))
    .filter((row) => row.value > 0).sort((x, y) => y.value - x.value);
}

// The tensors and layers that moved most, as two lists.
function movedCards(moved, most) {
  const byLayer = movedLayers();
  return [
    moved.length > 0 && figure("Moved most, by tensor", "norm of B − A by norm of A", ranking(moved.slice(0, most).map((pair) => ({ name: pair.shown.name, link: pair.shown.link, value: pair.moved, text: movedText(pair.moved) }))),
      moved.length > most && h("p", { class: "note more" }, h("a", { href: "#tensors?kind=values&sort=moved&order=down" }, `all ${integer(moved.length)} tensors`))),
    byLayer.length > 0 && figure("Moved most, by layer", "all tensors of a prefix together", ranking(byLayer.slice(0, most).map((row) => ({ name: row.name, value: row.value, text: movedText(row.value),
      link: "#tensors?mode=glob&sort=moved&order=down&q=" + encodeURIComponent(globOf(row.name) + "*") })), { colour: INK[2] })),
  ];
}

function changesView() {
  const moved = movedPairs();
  const points = model.pairs.filter((pair) => pair.a && pair.b && pair.a.norm > 0 && pair.b.norm > 0).sort((x, y) => (x.moved || 0) - (y.moved || 0)).slice(-1500)
    .map((pair) => ({ x: pair.a.norm, y: pair.b.norm, name: pair.shown.name, link: pair.shown.link, colour: pair.moved > 0 ? INK[5] : INK[0],
      text: `norm ${number(pair.a.norm)} → ${number(pair.b.norm)}${pair.moved ? `, moved ${number(pair.moved, 3)}` : ""}` }));
  const lists = ["added", "removed", "shape", "dtype", "error"].map((kind) => {
    const pairs = model.pairs.filter((pair) => kindsOf(pair).includes(kind));
    if (pairs.length === 0) return null;
    const type = (tensor) => (tensor ? `${tensor.dtype} ${tensor.shape}` : "");
    return h("section", { class: "card" }, h("h2", {}, h("span", { class: "badge " + kind }, CHANGE_WORDS[kind]), " ", h("span", { class: "count" }, integer(pairs.length))),
      h("ul", { class: "findings" }, pairs.slice(0, 30).map((pair) => h("li", {}, h("a", { href: pair.shown.link }, nameOf(shorten(pair.shown.name, 200))),
        h("span", { class: "what" }, kind === "error" ? visible(pair.error) : pair.a && pair.b ? `${type(pair.a)} → ${type(pair.b)}${pair.kind === "equal" ? ", the same values" : ""}` : type(pair.shown))))),
      pairs.length > 30 && h("p", { class: "note" }, h("a", { href: "#tensors?kind=" + kind }, `all ${integer(pairs.length)}`)));
  }).filter(Boolean);
  return [
    h("h1", {}, "Changes"),
    h("p", { class: "subtitle" }, "A is ", nameOf(model.archives[0].path), ", B is ", nameOf(model.archives[1].path)),
    changeTiles(),
    moved.length === 0 && h("p", { class: "card empty" }, model.pairs.some((pair) => pair.kind !== "equal") ? "No element of a tensor that both have differs." : "Nothing differs."),
    h("div", { class: "columns" },
      movedCards(moved, 20),
      points.length > 0 && figure("Norms", "on the line: the norm is the same", scatter(points, { label: `Norms of ${count(points.length, "tensor")} in A and B`, xLabel: "norm in A", yLabel: "norm in B" }),
        h("p", { class: "legend" }, swatch(INK[5]), h("span", {}, "elements changed"), swatch(INK[0]), h("span", {}, "equal, or of another shape"))),
      moved.length > 1 && movedHistogram(moved), lists),
  ];
}

function movedText(x) {
  if (!Number.isFinite(x)) return "from 0";
  if (x === 0) return "0 %";
  return x >= 10 ? number(x, 3) + " ×" : x >= 0.001 ? `${number(100 * x, 3)} %` : number(x, 3);
}

// How far the tensors moved, on a logarithmic axis.
function movedHistogram(moved) {
  const logs = moved.filter((pair) => Number.isFinite(pair.moved)).map((pair) => Math.log10(pair.moved));
  if (logs.length < 2) return null;
  const [low, high] = [Math.floor(Math.min(...logs)), Math.ceil(Math.max(...logs) + 1e-9)];
  const bins = Math.min(40, Math.max(8, 4 * (high - low)));
  const counts = Array(bins).fill(0);
  for (const x of logs) ++counts[Math.min(bins - 1, Math.floor(((x - low) / (high - low || 1)) * bins))];
  return figure("Distribution of the changes", `${count(logs.length, "tensor")} by norm of B − A by norm of A`, histogram([{ counts, colour: INK[0] }], low, high, { label: "Distribution of the changes", tickX: (e) => number(10 ** e, 2), xLabel: "moved", things: "tensors" }));
}

function pairCard(pair) {
  const cards = [h("section", { class: "card" }, h("h2", {}, "Change"), facts([
    ["A", pair.a ? [nameOf(shorten(pair.a.name, 200)), ` ${pair.a.dtype} ${pair.a.shape}`] : NONE], ["B", pair.b ? [nameOf(shorten(pair.b.name, 200)), ` ${pair.b.dtype} ${pair.b.shape}`] : NONE],
    pair.error && ["error", visible(pair.error)],
    ["elements that differ", pair.different === null ? NONE : pair.kind === "equal" ? "0" : `${integer(pair.different)} (${percent(pair.different, pair.b.elements)})`],
    ["largest |a − b|", number(pair.maxAbsolute, 7)], ["largest |a − b| / |b|", number(pair.maxRelative, 7)], ["norm of b − a", number(pair.norm, 7)],
    ["moved", pair.moved === null ? NONE : movedText(pair.moved)], pair.a && ["norm", `${number(pair.a.norm, 6)} → ${number(pair.b.norm, 6)}`]]))];
  if (pair.detail && pair.kind !== "equal") {
    const [low, high, a, b] = pair.detail.o;
    cards.push(figure("Both histograms", sampleNote(pair.b), histogram([{ counts: a, colour: INK[0], name: "A" }, { counts: b, colour: INK[5], name: "B" }], low, high, { label: "Histograms of A and B" }),
      h("p", { class: "legend" }, swatch(INK[0]), h("span", {}, "A"), swatch(INK[5]), h("span", {}, "B"))));
    const [least, most, counts] = pair.detail.h;
    cards.push(figure("Distribution of b − a", sampleNote(pair.b), histogram([{ counts, colour: INK[2] }], least, most, { label: "Histogram of b - a", log: true, xLabel: "b − a" })));
  }
  return cards;
}
