// One tensor.

// Cards in two columns without gaps: each goes below the shorter one. A narrow screen has one column, in order.
function stacks(cards) {
  const columns = [0, 1].map(() => h("div", { class: "stackcolumn" }));
  const place = h("div", { class: "stacks" }, columns);
  const all = cards.flat(2).filter(Boolean);
  const arrange = () => {
    const isWide = place.clientWidth >= 860;
    if (place.isWide === isWide) return;
    place.isWide = isWide;
    // In a narrow column all cards are in the first, and have their heights.
    columns[0].replaceChildren(...all);
    if (!isWide) return;
    const heights = all.map((card) => card.offsetHeight || 300);
    const sums = [0, 0];
    all.forEach((card, i) => {
      const side = sums[1] < sums[0] ? 1 : 0;
      sums[side] += heights[i];
      columns[side].append(card);
    });
  };
  new ResizeObserver(arrange).observe(place);
  return place;
}

function facts(rows) {
  return h("dl", { class: "facts" }, rows.filter(Boolean).map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, value))));
}

function sampleNote(tensor) {
  return tensor.sampled ? `of ${integer(tensor.sampleSize)} evenly spaced elements` : "of all elements";
}

function tensorView(name) {
  const tensor = model.byName.get(name);
  if (!tensor) {
    return [h("h1", {}, "No such tensor"), h("p", { class: "card empty" }, "This report has no tensor ", nameOf(shorten(name, 500)), ". ", h("a", { href: "#tensors" }, "See all tensors"), ".")];
  }
  const order = model.order && model.order.includes(tensor) ? model.order : model.tensors;
  const at = order.indexOf(tensor);
  const link = (other, text, key) => (other ? h("a", { href: other.link, class: "button", rel: key, title: visible(shorten(other.name, 200)) }, text) : h("span", { class: "button off" }, text));
  const archive = tensor.pair && !tensor.pair.b ? model.archives[0] : model.archives[model.archives.length - 1];
  const file = archive.files[Math.max(tensor.shard, 0)];
  const group = tensor.measured && tensor.group >= 0 ? (model.equals.get(tensor.group) || []).filter((other) => other !== tensor) : [];
  return [
    h("div", { class: "toolbar above" }, h("a", { href: model.tableLink || "#tensors", class: "button" }, order.length < model.tensors.length ? "‹ Found tensors" : "‹ All tensors"), h("span", { class: "push" }),
      link(order[at - 1], "‹ Previous", "prev"), link(order[at + 1], "Next ›", "next")),
    h("h1", { class: "path tensorname" }, nameOf(tensor.name)),
    h("p", { class: "subtitle" }, tensor.dtype || "unknown dtype", " ", tensor.shape, tensor.pair ? [" · ", badgesOf(tensor.pair)] : null),
    tensor.error && h("p", { class: "card problem" }, h("span", { class: "level bad" }, "✖"), " ", visible(tensor.error)),
    tensor.problems && tensor.problems.some((one) => one.id !== "error") && h("ul", { class: "card problems" }, tensor.problems.filter((one) => one.id !== "error").map((one) => {
      const check = CHECKS.find((other) => other.id === one.id);
      return h("li", {}, h("span", { class: "level " + check.level }, LEVELS[check.level][0]), " ", h("strong", {}, check.title), ": ", visible(one.text));
    })),
    stacks([
      tensor.pair && tensor.pair.a && tensor.pair.b && pairCard(tensor.pair),
      tensor.series && seriesCards(tensor.series),
      tensor.detail && tensor.detail.h && tensor.elements > 1 && histogramCard(tensor, tensor.detail),
      h("section", { class: "card" }, h("h2", {}, "Statistics"), statistics(tensor)),
      h("section", { class: "card" }, h("h2", {}, "Storage"), facts([
        ["elements", integer(tensor.elements)], ["bytes in memory", `${integer(tensor.bytes)} (${bytes(tensor.bytes)})`],
        ["bytes in the file", `${integer(tensor.stored)} (${bytes(tensor.stored)})`],
        ["encoding", visible(tensor.encoding) || "plain"], file && ["file", nameOf(file[0])],
        tensor.offset >= 0 && ["range", `${integer(tensor.offset)} to ${integer(tensor.offset + tensor.stored)}`],
        tensor.alias && ["another name of", h("a", { href: tensorLink(tensor.alias) }, nameOf(shorten(tensor.alias, 300)))],
        group.length > 0 && ["same elements as", group.slice(0, 8).map((other, i) => [i > 0 && ", ", h("a", { href: other.link }, nameOf(shorten(other.name, 120)))])],
        ["command", h("code", {}, showCommand(archive, tensor))],
      ])),
      detailCards(tensor), liveCards(tensor)]),
  ];
}

function showCommand(archive, tensor) {
  const words = [archive.path, tensor.name];
  return ["tensorcask show", ...(words.some((word) => word.startsWith("-")) ? ["--"] : []), ...words.map(shellWord)].join(" ");
}

function statistics(tensor) {
  if (!tensor.measured) return h("p", { class: "note" }, tensor.error ? "The elements cannot be read." : tensor.alias ? "Those of the tensor of which this is another name." : "Only numbers with an order have statistics.");
  if (tensor.elements === 0) return h("p", { class: "note" }, "The tensor has no elements.");
  const part = (n) => (n > 0 ? `${integer(n)} (${percent(n, tensor.elements)})` : "0");
  return facts([["minimum", number(tensor.min, 7)], ["maximum", number(tensor.max, 7)], ["mean", number(tensor.mean, 7)], ["standard deviation", number(tensor.spread, 7)],
    ["norm", number(tensor.norm, 7)], ["root mean square", number(tensor.rms, 7)], ["zeros", part(tensor.zeros)], ["NaN", part(tensor.nans)], ["infinite", part(tensor.infinities)],
    ["subnormal", part(tensor.subnormals)], tensor.saturated > 0 && ["saturated", part(tensor.saturated)],
    tensor.deadRows >= 0 && ["dead rows", `${integer(tensor.deadRows)} of ${integer(tensor.dims[0])}`], tensor.deadColumns >= 0 && ["dead columns", `${integer(tensor.deadColumns)} of ${integer(tensor.dims[1])}`]]);
}

// What this report leaves out, and the command of a report that has it.
function fewerTensors(tensor, what) {
  const archive = model.archives[model.archives.length - 1];
  const words = [archive.path, "-o", "page.html", "--include", globOf(tensor.name)].map(shellWord);
  return h("p", { class: "card empty" }, `This report has ${integer(model.tensors.length)} tensors and keeps no ${what}. `,
    "A report of fewer tensors has them: ", h("code", {}, ["tensorcask report", ...words].join(" ")));
}

// Singular values: {n, rank, v}, where v has some of them, or why there are none.
function singularFigure(singular) {
  if (typeof singular === "string") return figure("Singular values", "", h("p", { class: "note" }, visible(singular)));
  const { n, rank, v } = singular;
  const positions = v.map((_, k) => 1 + (v.length > 1 ? Math.floor((k * (n - 1)) / (v.length - 1)) : 0));
  return figure("Singular values", "of the whole matrix",
    lines([{ values: v, colour: INK[3] }], positions.map(integer), { positions, label: "Singular values", log: v[0] > 0, yLabel: v[0] > 0 ? "value (log)" : "value", xLabel: "number" }),
    facts([["largest", number(v[0], 7)], ["smallest", number(v[v.length - 1], 7)], ["above 10⁻⁶ of the largest", `${integer(rank)} of ${integer(n)}`]]));
}

function detailCards(tensor) {
  const detail = tensor.detail;
  const cards = [];
  if (tensor.measured && tensor.elements > 1 && !(detail && (detail.h || detail.q))) {
    cards.push(fewerTensors(tensor, "histograms"));
  }
  if (!detail) return cards;
  if (detail.v && tensor.elements > 0) {
    cards.push(figure("Values", "row-major", h("p", { class: "few", tabindex: 0, role: "region", "aria-label": "Values" }, detail.v.map((x) => h("span", {}, x === null ? "not finite" : number(x, 7))))));
  }
  if (detail.q) cards.push(quantileCard(tensor, detail));
  if (detail.t) cards.push(pictureCard(tensor, detail.t));
  if (detail.a) cards.push(...axisCards(tensor, detail.a));
  if (detail.s !== undefined) cards.push(singularFigure(detail.s));
  if (detail.h && !detail.t && tensor.elements > 1) cards.push(fewerTensors(tensor, "heat maps and no means along the axes"));
  return cards;
}

function histogramCard(tensor, detail) {
  const place = h("div", {});
  const state = { log: false, magnitude: false };
  const show = () => {
    const label = `Histogram of ${visible(shorten(tensor.name, 100))}`;
    if (state.magnitude && detail.e) {
      const [first, counts] = detail.e;
      place.replaceChildren(histogram([{ counts, colour: INK[0] }], first, first + counts.length, { label: label + " by magnitude", log: state.log,
        tickX: (e) => `2^${Math.floor(e)}`, xLabel: "magnitude" }), counts.length === 0 ? "" : h("p", { class: "note" }, "Elements with 2^k ≤ |x| < 2^(k+1); zeros are left out."));
    } else {
      place.replaceChildren(histogram([{ counts: detail.h, colour: INK[0] }], tensor.min, tensor.max, { label, log: state.log }));
    }
  };
  const box = (key, text) => {
    const input = h("input", { type: "checkbox", id: "histogram-" + key, onchange: () => { state[key] = input.checked; show(); } });
    return h("label", { for: input.id }, input, " ", text);
  };
  show();
  return figure("Histogram", sampleNote(tensor), h("div", { class: "choices" }, box("log", "logarithmic counts"), detail.e && box("magnitude", "by magnitude")), place);
}

function quantileCard(tensor, detail) {
  return figure("Percentiles", sampleNote(tensor), h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "percentile"), h("th", { scope: "col", class: "n" }, "value"))),
    h("tbody", {}, [["minimum", tensor.min], ...QUANTILES.map((q, i) => [`${q} %`, detail.q[i]]), ["maximum", tensor.max]].map(([label, x]) =>
      h("tr", {}, h("th", { scope: "row" }, label), h("td", { class: "n" }, number(x, 6)))))));
}

// Of a lattice of any rank: two axes make the picture, and the others are at one index, or their mean.
function pictureCard(tensor, picture) {
  const bytes = Uint8Array.from(atob(picture.d), (c) => c.charCodeAt(0));
  const rank = picture.n.length;
  const strides = picture.n.map((_, axis) => picture.n.slice(axis + 1).reduce((product, n) => product * n, 1));
  const byLength = picture.n.map((n, axis) => axis).sort((x, y) => picture.n[y] - picture.n[x] || x - y);
  const first = rank > 1 ? byLength.slice(0, 2).sort((x, y) => x - y) : [0];
  const state = { down: rank > 1 ? first[0] : -1, across: rank > 1 ? first[1] : 0, at: picture.n.map(() => 0) };
  const place = h("div", {});
  const controls = h("div", { class: "choices" });
  const show = () => {
    const columns = picture.n[state.across];
    const rows = state.down < 0 ? 1 : picture.n[state.down];
    const base = picture.n.reduce((sum, _, axis) => (axis === state.across || axis === state.down ? sum : sum + state.at[axis] * strides[axis]), 0);
    const cells = new Uint8Array(rows * columns);
    for (let row = 0; row < rows; ++row) {
      for (let column = 0; column < columns; ++column) {
        cells[row * columns + column] = bytes[base + (state.down < 0 ? 0 : row * strides[state.down]) + column * strides[state.across]];
      }
    }
    const axisOf = (axis) => ({ axis, size: tensor.dims[axis] });
    place.replaceChildren(heatMap({ cells, rows, columns, low: picture.lo, high: picture.hi, down: state.down < 0 ? null : axisOf(state.down), across: axisOf(state.across),
      label: `Heat map of ${visible(shorten(tensor.name, 100))}: ${rows} rows, ${columns} columns` }));
  };
  if (rank > 2) {
    const axisSelect = (key, text) => {
      const select = h("select", { id: "axis-" + key, onchange: () => {
        const chosen = Number(select.value);
        const other = key === "down" ? "across" : "down";
        if (state[other] === chosen) state[other] = state[key];
        state[key] = chosen;
        controls.replaceChildren(...build());
        show();
      } }, picture.n.map((_, axis) => h("option", { value: axis, selected: axis === state[key] }, `axis ${axis} (${integer(tensor.dims[axis])})`)));
      return h("label", { for: select.id }, text, " ", select);
    };
    const build = () => [axisSelect("down", "down"), axisSelect("across", "across"), ...picture.n.map((n, axis) => {
      if (axis === state.down || axis === state.across || n < 2) return null;
      const slider = h("input", { type: "range", id: "index-" + axis, min: 0, max: n - 1, value: state.at[axis], oninput: () => {
        state.at[axis] = Number(slider.value);
        shown.textContent = integer(Math.floor((state.at[axis] * tensor.dims[axis]) / n));
        show();
      } });
      const shown = h("output", {}, integer(Math.floor((state.at[axis] * tensor.dims[axis]) / n)));
      return h("label", { for: slider.id }, `axis ${axis} at `, slider, " ", shown);
    }).filter(Boolean)];
    controls.replaceChildren(...build());
  }
  show();
  const every = picture.n.every((n, axis) => n === tensor.dims[axis]);
  return figure("Heat map", every ? "every element" : `${picture.n.join(" × ")} evenly spaced elements of ${tensor.dims.join(" × ")}`, rank > 2 ? controls : "", place);
}

function axisCards(tensor, axesOf) {
  return axesOf.map((axis, i) => {
    if (!axis || axis[0].length < 2) return null;
    const [means, spreads] = axis;
    const n = means.length;
    const positions = means.map((_, k) => Math.floor((k * tensor.dims[i]) / n));
    const labels = positions.map(integer);
    return figure(`Along axis ${i}`, `${integer(tensor.dims[i])} ${n < tensor.dims[i] ? `indices in ${n} groups` : "indices"}`,
      lines([{ values: means, colour: INK[0], name: "mean" }, { values: spreads, colour: INK[5], name: "standard deviation" }], labels, { label: `Mean and spread along axis ${i}`, xLabel: `index of axis ${i}`, positions }),
      h("p", { class: "legend" }, swatch(INK[0]), h("span", {}, "mean"), swatch(INK[5]), h("span", {}, "standard deviation")));
  }).filter(Boolean);
}

function swatch(colour) {
  const element = h("span", { class: "swatch", "aria-hidden": "true" });
  element.style.background = colour;
  return element;
}
