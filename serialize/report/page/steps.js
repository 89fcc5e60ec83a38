// The steps of a run.

// Of one tensor, from one step to another: by which factor its norm changed, larger than 1 either way.
function factorBetween(series, from, to) {
  const [x, y] = [series.norms[from], series.norms[to]];
  if (x === null || y === null || y === undefined || x === undefined) return null;
  if (x === 0 || y === 0) return x === y ? 1 : Infinity;
  return y / x;
}

// The largest growth of the norm between two steps in a row.
function jumpOf(series) {
  if (!series) return null;
  let largest = null;
  for (let i = 1; i < series.norms.length; ++i) {
    const factor = factorBetween(series, i - 1, i);
    if (factor !== null && (largest === null || factor > largest)) largest = factor;
  }
  return largest;
}

function jumps(from, to) {
  const rows = [];
  for (const series of model.run.series) {
    for (let i = from + 1; i <= to; ++i) {
      const factor = factorBetween(series, i - 1, i);
      const bad = series.bad[i] > series.bad[i - 1];
      if (bad || (factor !== null && factor !== 1)) rows.push({ series, step: i, factor, bad: bad ? series.bad[i] : 0, size: bad ? Infinity : Math.abs(Math.log(factor)) });
    }
  }
  rows.sort((x, y) => y.size - x.size);
  const seen = new Set();
  return rows.filter((row) => !seen.has(row.series) && seen.add(row.series)); // the largest of each tensor
}

// 2 -> "2 ×", 1.004 -> "+0.4 %".
function factorText(factor) {
  if (factor >= 1.1 || factor <= 0.9) return number(factor, 4) + " ×";
  return `${factor < 1 ? "−" : "+"}${number(100 * Math.abs(factor - 1), 2)} %`;
}

function jumpsCard(most, from = 0, to = model.run.steps.length - 1) {
  const rows = jumps(from, to);
  const steady = (row) => row.size < Math.log(1.01); // these are not jumps
  const large = rows.filter((row) => !steady(row));
  const shown = large.length > 0 ? large.slice(0, most) : rows.slice(0, 3);
  const rest = large.length > 0 ? rows.length - large.length : 0;
  if (rows.length === 0) return h("section", { class: "card" }, h("h2", {}, "Largest jumps"), h("p", { class: "note" }, model.run.steps.length < 2 ? "There is one step only." : "No norm changes between these steps."));
  return h("section", { class: "card jumps" }, h("h2", {}, "Largest jumps"), h("p", { class: "note" }, "Tensors whose norm changed most from one step to the next, and tensors in which NaN or infinite elements appeared."),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Largest jumps" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "tensor"), ["factor", "norm"].map((text) => h("th", { scope: "col", class: "n" }, text)), h("th", { scope: "col" }, "between"))),
      h("tbody", {}, shown.map((row) => h("tr", {}, h("th", { scope: "row" }, seriesLink(row.series)),
        h("td", { class: "n" }, row.bad ? h("span", {}, h("span", { class: "level bad" }, "✖"), ` ${integer(row.bad)} not finite`) : factorText(row.factor)),
        h("td", { class: "n" }, `${number(row.series.norms[row.step - 1])} → ${number(row.series.norms[row.step])}`),
        h("td", {}, `${visible(model.run.steps[row.step - 1].label)} → ${visible(model.run.steps[row.step].label)}`)))))),
    rest > 0 && h("p", { class: "note more" }, `${count(rest, "other tensor")} changed by less than 1 % from each step to the next.`),
    most < 10 && h("p", { class: "note more" }, h("a", { href: "#steps" }, "all steps")));
}

function seriesLink(series) {
  return model.byName.has(series.name) ? h("a", { href: tensorLink(series.name), title: visible(shorten(series.name, 300)) }, nameOf(shorten(series.name, 160))) : nameOf(shorten(series.name, 160));
}

const METRICS = { norms: "norm", changes: "change since the step before", largest: "largest |x|", bad: "NaN and infinite elements", sizes: "bytes in the file" };

function stepsView() {
  const { steps, series } = model.run;
  const labels = steps.map((step) => step.label);
  const state = { metric: "norms", log: false, order: "jump", from: 0, to: steps.length - 1, shown: 24 };
  const place = h("div", { class: "multiples" });
  const table = h("div", {});
  const more = h("button", { type: "button", onclick: () => { state.shown += 48; show(); } }, "Show more");
  const orders = { jump: "largest jump first", name: "by name", size: "largest norm first" };
  const show = () => {
    const span = (one) => { const f = factorBetween(one, state.from, state.to); return f === null ? -1 : f > 0 && Number.isFinite(f) ? Math.abs(Math.log(f)) : Infinity; };
    const sizes = new Map(series.map((one) => [one, state.order === "size" ? Math.max(...one.norms.map((x) => x || 0)) : state.order === "jump" ? largestStep(one, state.from, state.to) : 0]));
    const sorted = state.order === "name" ? series : series.slice().sort((x, y) => sizes.get(y) - sizes.get(x) || span(y) - span(x));
    const range = labels.slice(state.from, state.to + 1);
    place.replaceChildren(...sorted.slice(0, state.shown).map((one) => h("figure", { class: "card multiple" }, h("figcaption", {}, seriesLink(one)),
      lines([{ values: one[state.metric].slice(state.from, state.to + 1), colour: INK[0] }], range, { label: `${METRICS[state.metric]} of ${visible(shorten(one.name, 100))}`, height: 120, small: true, log: state.log && state.metric !== "bad", inBytes: state.metric === "sizes", room: state.metric === "norms" || state.metric === "largest" ? 0.02 : 0 }))));
    more.hidden = sorted.length <= state.shown;
    table.replaceChildren(jumpsCard(12, state.from, state.to));
  };
  const select = (key, options, text) => {
    const element = h("select", { id: "steps-" + key, onchange: () => { state[key] = typeof state[key] === "number" ? Number(element.value) : element.value;
      if (state.from >= state.to && steps.length > 1) { state.from = Math.min(state.from, steps.length - 2); state.to = Math.max(state.to, state.from + 1);
        document.getElementById("steps-from").value = state.from; document.getElementById("steps-to").value = state.to; }
      show(); } },
      options.map(([value, label]) => h("option", { value, selected: value === state[key] }, label)));
    return h("label", { for: element.id }, text, " ", element);
  };
  const logs = h("input", { type: "checkbox", id: "steps-log", onchange: () => { state.log = logs.checked; show(); } });
  const numbered = labels.map((label, i) => [i, shorten(visible(label), 60)]);
  show();
  return [
    h("h1", {}, "Steps"),
    h("div", { class: "toolbar" }, select("from", numbered, "from"), select("to", numbered, "to"), select("metric", Object.entries(METRICS), "draw"), select("order", Object.entries(orders), "order"), h("label", { for: "steps-log" }, logs, " logarithmic")),
    table, place, h("p", { class: "center" }, more),
    h("div", { class: "columns" }, figure("Size in the file", "all tensors", lines([{ values: steps.map((step) => step.bytes), colour: INK[2] }], labels, { label: "Bytes of each step", inBytes: true })),
      h("section", { class: "card" }, h("h2", {}, "Files of the steps"), h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Files of the steps" }, h("table", { class: "plain" }, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "step"), h("th", { scope: "col" }, "path"), h("th", { scope: "col", class: "n" }, "tensors"), h("th", { scope: "col", class: "n" }, "bytes"))),
        h("tbody", {}, steps.map((step) => h("tr", {}, h("th", { scope: "row" }, visible(shorten(step.label, 60))), h("td", { class: "path" }, nameOf(step.path)), h("td", { class: "n" }, integer(step.tensors)), h("td", { class: "n" }, bytes(step.bytes))))))))),
  ];
}

function largestStep(series, from, to) {
  let largest = -1;
  for (let i = from + 1; i <= to; ++i) {
    const factor = factorBetween(series, i - 1, i);
    if (series.bad[i] > series.bad[i - 1]) return Infinity;
    if (factor !== null) largest = Math.max(largest, factor > 0 && Number.isFinite(factor) ? Math.abs(Math.log(factor)) : Infinity);
  }
  return largest;
}

function seriesCards(series) {
  const labels = model.run.steps.map((step) => step.label);
  return [["norms", "Norm", "of all elements"], ["changes", "Change", "norm of the change since the step before, by the norm before; of a sample"], ["largest", "Largest |x|", "of the finite elements"], ["sizes", "Bytes in the file", ""]].map(([key, title, note]) =>
    figure(title + " over the steps", note, lines([{ values: series[key], colour: INK[0] }], labels, { label: `${title} over the steps`, inBytes: key === "sizes" })));
}
