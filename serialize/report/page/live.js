// What a page of `tensorcask browse` asks its server for.

function ask(path, parameters) {
  const query = new URLSearchParams({ ...parameters, token: new URLSearchParams(location.search).get("token") || "" });
  return fetch(`${path}?${query}`, { cache: "no-store", credentials: "omit" }).then((answer) => {
    if (!answer.ok) return answer.text().then((text) => Promise.reject(new Error(text || String(answer.status))));
    return answer.json();
  });
}

function liveCards(tensor) {
  if (!model.live || tensor.error || model.kind !== "file") return [];
  const cards = [valuesCard(tensor)];
  if (tensor.dims.length === 2 && tensor.measured && tensor.elements > 0 && Math.max(...tensor.dims) <= 4096) cards.push(singularCard(tensor));
  return cards;
}

// The elements as a grid: the last two axes, in pages; the other axes at one index.
function valuesCard(tensor) {
  const rank = tensor.dims.length;
  const [rows, columns] = [rank > 1 ? tensor.dims[rank - 2] : 1, rank > 0 ? tensor.dims[rank - 1] : 1];
  const [high, wide] = [16, 8];
  const state = { row: 0, column: 0, at: tensor.dims.slice(0, -2).map(() => 0) };
  const place = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Elements" });
  const where = h("span", { class: "note", "aria-live": "polite" });
  const show = () => {
    const starts = [...state.at, ...(rank > 1 ? [state.row] : []), ...(rank > 0 ? [state.column] : [])];
    const lengths = [...state.at.map(() => 1), ...(rank > 1 ? [Math.min(high, rows - state.row)] : []), ...(rank > 0 ? [Math.min(wide, columns - state.column)] : [])];
    ask("values", { tensor: tensor.index, start: starts.join(","), length: lengths.join(",") }).then((values) => {
      const across = lengths[rank - 1] || 1;
      place.replaceChildren(h("table", { class: "plain elements" }, h("thead", {}, h("tr", {}, h("td", {}), Array.from({ length: across }, (_, i) => h("th", { scope: "col", class: "n" }, integer(state.column + i))))),
        h("tbody", {}, Array.from({ length: Math.ceil(values.length / across) }, (_, r) => h("tr", {}, h("th", { scope: "row", class: "n" }, integer(state.row + r)),
          values.slice(r * across, (r + 1) * across).map((x) => h("td", { class: "n" }, visible(shorten(x, 60)))))))));
      where.textContent = `rows ${integer(state.row)} to ${integer(state.row + Math.ceil(values.length / across) - 1)} of ${integer(rows)}, columns ${integer(state.column)} to ${integer(state.column + across - 1)} of ${integer(columns)}`;
    }, (error) => place.replaceChildren(h("p", { class: "problem" }, visible(error.message))));
  };
  const go = (key, step, most) => h("button", { type: "button", onclick: () => { state[key] = Math.min(Math.max(state[key] + step, 0), Math.max(0, most - 1)); show(); } },
    { row: step < 0 ? "↑" : "↓", column: step < 0 ? "←" : "→" }[key]);
  const box = (axis) => {
    const input = h("input", { type: "number", id: "at-" + axis, min: 0, max: tensor.dims[axis] - 1, value: 0, onchange: () => { state.at[axis] = Math.min(Math.max(Number(input.value) || 0, 0), tensor.dims[axis] - 1); input.value = state.at[axis]; show(); } });
    return h("label", { for: input.id }, `axis ${axis} `, input);
  };
  if (tensor.elements > 0) show();
  else place.append("The tensor has no elements.");
  const buttons = [rows > high && go("row", -high, rows), rows > high && go("row", high, rows), columns > wide && go("column", -wide, columns), columns > wide && go("column", wide, columns)].filter(Boolean);
  for (const [button, word] of buttons.map((button) => [button, { "↑": "Rows before", "↓": "Rows after", "←": "Columns before", "→": "Columns after" }[button.textContent]])) button.setAttribute("aria-label", word);
  return figure("Elements", "read from the file", h("div", { class: "choices" }, state.at.map((_, axis) => box(axis)), buttons, where), place);
}

function singularCard(tensor) {
  const place = h("div", {});
  const button = h("button", { type: "button", onclick: () => {
    button.disabled = true;
    place.replaceChildren(h("p", { class: "note" }, "Computing …"));
    ask("singular", { tensor: tensor.index }).then((values) => {
      const rank = values.filter((x) => x > values[0] * 1e-6).length;
      place.replaceChildren(lines([{ values, colour: INK[3] }], values.map((_, i) => String(i + 1)), { label: "Singular values", log: true }),
        facts([["largest", number(values[0], 7)], ["smallest", number(values[values.length - 1], 7)], ["above 10⁻⁶ of the largest", integer(rank)]]));
    }, (error) => { button.disabled = false; place.replaceChildren(h("p", { class: "problem" }, visible(error.message))); });
  } }, "Compute");
  return figure("Singular values", "of the whole matrix", h("div", { class: "choices" }, button), place);
}
