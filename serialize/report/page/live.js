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
  if (tensor.dims.length === 2 && tensor.measured && tensor.elements > 0 && Math.max(...tensor.dims) <= 4096 && !(tensor.detail && tensor.detail.s)) cards.push(singularCard(tensor));
  return cards;
}

// The elements as a grid of two axes, in pages; the other axes are at one index.
function valuesCard(tensor) {
  const { dims } = tensor;
  const rank = dims.length;
  const isFlat = rank === 1; // in lines of 8 elements
  const [high, wide] = [16, isFlat ? 128 : 8];
  const state = { down: rank - 2, across: rank - 1, at: dims.map(() => 0) };
  const place = h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Elements" });
  const where = h("span", { class: "note", "aria-live": "polite" });
  const controls = h("div", { class: "choices" });
  const sizeOf = (axis) => (axis < 0 ? 1 : dims[axis]);
  const lengthOf = (axis) => (axis === state.down ? high : axis === state.across ? wide : 1);
  let asked = 0;
  const show = () => {
    const lengths = dims.map((size, axis) => Math.min(lengthOf(axis), size - state.at[axis]));
    const [rows, columns] = [state.down < 0 ? 1 : lengths[state.down], state.across < 0 ? 1 : lengths[state.across]];
    const [top, left] = [state.down < 0 ? 0 : state.at[state.down], state.across < 0 ? 0 : state.at[state.across]];
    const turn = ++asked;
    ask("values", { tensor: tensor.index, start: state.at.join(","), length: lengths.join(",") }).then((values) => {
      if (turn !== asked) return; // the reader has gone on
      const at = (row, column) => values[isFlat ? 8 * row + column : state.down > state.across ? column * rows + row : row * columns + column] ?? "";
      const [lines, cells] = isFlat ? [Math.ceil(columns / 8), Math.min(columns, 8)] : [rows, columns];
      place.replaceChildren(h("table", { class: "plain elements" }, h("thead", {}, h("tr", {}, h("td", {}), Array.from({ length: cells }, (_, i) => h("th", { scope: "col", class: "n" }, isFlat ? `+${i}` : integer(left + i))))),
        h("tbody", {}, Array.from({ length: lines }, (_, row) => h("tr", {}, h("th", { scope: "row", class: "n" }, integer(isFlat ? left + 8 * row : top + row)),
          Array.from({ length: cells }, (_, column) => h("td", { class: "n" }, visible(shorten(at(row, column), 60)))))))));
      const range = (axis, first, length) => `axis ${axis}: ${integer(first)} to ${integer(first + length - 1)} of ${integer(dims[axis])}`;
      where.textContent = [state.down >= 0 && range(state.down, top, rows), state.across >= 0 && range(state.across, left, columns)].filter(Boolean).join(" · ");
    }, (error) => place.replaceChildren(h("p", { class: "problem" }, visible(error.message))));
  };
  const move = (axis, to) => {
    state.at[axis] = Math.min(Math.max(Math.floor(to) || 0, 0), dims[axis] - 1);
    const input = document.getElementById("at-" + axis);
    if (input) input.value = state.at[axis];
    show();
  };
  const box = (axis) => {
    const input = h("input", { type: "number", id: "at-" + axis, min: 0, max: dims[axis] - 1, value: state.at[axis], onchange: () => move(axis, Number(input.value)) });
    return h("label", { for: input.id }, rank > 2 || axis !== state.down && axis !== state.across ? `axis ${axis} ` : axis === state.down ? "row " : "column ", axis === state.down || axis === state.across ? "from " : "at ", input);
  };
  const step = (axis, by, sign, word) => h("button", { type: "button", "aria-label": word, title: word, onclick: () => {
    if (by < 0 || state.at[axis] + by < dims[axis]) move(axis, state.at[axis] + by);
  } }, sign);
  const choice = (key, word) => {
    const select = h("select", { id: "elements-" + key, onchange: () => {
      const chosen = Number(select.value);
      const other = key === "down" ? "across" : "down";
      if (state[other] === chosen) state[other] = state[key];
      state[key] = chosen;
      build();
      document.getElementById(select.id).focus();
      show();
    } }, dims.map((size, axis) => h("option", { value: axis, selected: axis === state[key] }, `axis ${axis} (${integer(size)})`)));
    return h("label", { for: select.id }, word, " ", select);
  };
  function build() {
    const { down, across } = state;
    controls.replaceChildren(...[
      ...(rank > 2 ? [choice("down", "down"), choice("across", "across")] : []),
      ...dims.map((size, axis) => size > lengthOf(axis) && box(axis)),
      sizeOf(down) > high && [step(down, -high, "↑", "Rows before"), step(down, high, "↓", "Rows after")],
      sizeOf(across) > wide && [step(across, -wide, "←", "Columns before"), step(across, wide, "→", "Columns after")], where].flat().filter(Boolean));
  }
  build();
  if (tensor.elements > 0) show();
  else place.append("The tensor has no elements.");
  return figure("Elements", "read from the file", controls, place);
}

function singularCard(tensor) {
  const place = h("div", { class: "asked" });
  const button = h("button", { type: "button", onclick: () => {
    button.disabled = true;
    place.replaceChildren(h("p", { class: "note" }, tensor.elements > 1e6 ? "Computing: this takes up to a minute …" : "Computing …"));
    ask("singular", { tensor: tensor.index }).then((values) => {
      card.replaceWith(singularFigure({ n: values.length, rank: values.filter((x) => x > values[0] * 1e-6).length, v: values }));
    }, (error) => { button.disabled = false; place.replaceChildren(h("p", { class: "problem" }, visible(error.message))); });
  } }, "Compute");
  const card = figure("Singular values", "of the whole matrix", h("div", { class: "choices" }, button), place);
  return card;
}
