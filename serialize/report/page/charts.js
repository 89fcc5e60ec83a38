// Charts as SVG. Each is drawn for the width of its place, and again when that changes.

const INK = ["--c0", "--c1", "--c2", "--c3", "--c4", "--c5", "--c6", "--c7"].map((name) => `var(${name})`);
// Cividis, from low to high: the same for readers who do not see all colours.
const RAMP = ["#00224e", "#123570", "#3b496c", "#575d6d", "#707173", "#8a8678", "#a59c74", "#c3b369", "#e1cc55", "#fee838"];
const BLUES = ["#e3eef8", "#c3daef", "#97bfe0", "#659fcd", "#3a7eb8", "#1f5e9c", "#0d3d73"];
const BLUES_ON_DARK = ["#172b45", "#1d4470", "#28619b", "#4383bd", "#72a8d7", "#a7cbe8", "#dcebf7"];
const DIVERGING = ["#2166ac", "#4393c3", "#92c5de", "#d1e5f0", "#f7f7f7", "#fddbc7", "#f4a582", "#d6604d", "#b2182b"];

const NOT_FINITE = [255, 0, 200];

// From few to much. What is much stands out from the back of the page.
function blues() {
  const { theme } = document.documentElement.dataset;
  return theme === "dark" || (theme === "auto" && matchMedia("(prefers-color-scheme: dark)").matches) ? BLUES_ON_DARK : BLUES;
}

function parseColour(hex) {
  return [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
}

// A colour of `stops` at t, from 0 to 1, as [red, green, blue].
function mixed(stops, t) {
  const place = Math.min(Math.max(t, 0), 1) * (stops.length - 1);
  const i = Math.min(Math.floor(place), stops.length - 2);
  const [low, high] = [parseColour(stops[i]), parseColour(stops[i + 1])];
  return low.map((x, channel) => Math.round(x + (high[channel] - x) * (place - i)));
}

function rgb(channels) {
  return `rgb(${channels.join(",")})`;
}

// Black or white, whichever is easier to read on a colour.
function inkOn(channels) {
  const [r, g, b] = channels.map((x) => (x / 255 <= 0.03928 ? x / 255 / 12.92 : ((x / 255 + 0.055) / 1.055) ** 2.4));
  return 0.2126 * r + 0.7152 * g + 0.0722 * b > 0.179 ? "#000" : "#fff";
}

const resized = new ResizeObserver((entries) => {
  for (const { target, contentRect } of entries) {
    const width = Math.round(contentRect.width);
    if (width > 0 && width !== target.drawnWidth) {
      target.drawnWidth = width;
      target.style.minHeight = "";
      target.replaceChildren(...[target.draw(width)].flat().filter(Boolean));
    }
  }
});

// A place for what draw(width) returns, `height` high until that is drawn.
function chart(draw, height = 40, attributes = {}) {
  const place = h("div", { class: "chart", ...attributes });
  place.draw = draw;
  place.style.minHeight = height + "px";
  resized.observe(place);
  return place;
}

function figure(title, note, ...content) {
  return h("figure", { class: "card" }, h("figcaption", {}, h("span", { class: "title" }, title), note && h("span", { class: "note" }, note)),
    content);
}

// Axes with few ticks: [elements, x, y] for scales of d3.
function axes(width, height, margin, x, y, labels = {}) {
  const ticksX = (x.ticks ? x.ticks(Math.max(2, Math.min(8, Math.floor(width / 90)))) : []).slice(0, 12);
  const ticksY = y.ticks(4);
  const bottom = height - margin.bottom;
  const few = (ticks, scale, most) => {
    if (!scale.base || ticks.length <= most) return ticks;
    const powers = ticks.filter((tick) => Math.abs(Math.log10(Math.abs(tick)) % 1) < 1e-9);
    const kept = powers.length >= 2 ? powers : ticks;
    return kept.filter((_, i) => i % Math.ceil(kept.length / most) === 0);
  };
  const [shownX, shownY] = [few(ticksX, x, 6), few(ticksY, y, 5)];
  const [textsX, textsY] = [tickTexts(shownX), tickTexts(shownY)];
  return [
    svg("g", { class: "axis" },
      shownY.map((tick, i) => [
        svg("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: y(tick), y2: y(tick) }),
        svg("text", { x: margin.left - 6, y: y(tick) + 4, "text-anchor": "end" }, textsY[i]),
      ]),
      shownX.map((tick, i) => svg("text", { x: x(tick), y: bottom + 16, "text-anchor": "middle" }, labels.tickX ? labels.tickX(tick) : textsX[i])),
      svg("line", { x1: margin.left, x2: width - margin.right, y1: bottom, y2: bottom }),
      labels.x && svg("text", { class: "label", x: width - margin.right, y: height - 2, "text-anchor": "end" }, labels.x),
      labels.y && svg("text", { class: "label", x: 2, y: 11 }, labels.y)),
  ];
}

function canvasOf(width, height, label, ...content) {
  return svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height, role: "img", "aria-label": label }, content);
}

// Bars of one or two series over equal parts of [low, high]: {counts, colour, name}.
function histogram(series, low, high, { label, log = false, height = 220, tickX = null, xLabel = "value", things = "elements" } = {}) {
  return chart((width) => {
    const margin = { top: 26, right: 12, bottom: 36, left: 52 };
    const bins = series[0].counts.length;
    const most = Math.max(1, ...series.flatMap((one) => one.counts));
    const x = d3.scaleLinear().domain(low < high ? [low, high] : [low - 0.5, low + 0.5]).range([margin.left, width - margin.right]);
    const y = (log ? d3.scaleLog().domain([0.7, most * 1.05]) : d3.scaleLinear().domain([0, most]).nice())
      .range([height - margin.bottom, margin.top]);
    const step = (width - margin.left - margin.right) / bins;
    // A second series is an outline over the bars of the first.
    const outline = (one) => svg("path", { fill: "none", stroke: one.colour, "stroke-width": 1.75, d: `M${margin.left},${height - margin.bottom}` +
      one.counts.map((n, i) => `V${n > 0 ? y(n).toFixed(1) : height - margin.bottom}h${step.toFixed(3)}`).join("") + `V${height - margin.bottom}` });
    const bars = series.map((one, k) => svg("g", { class: "bars", fill: one.colour, "fill-opacity": k > 0 ? 0.18 : series.length > 1 ? 0.7 : 1 }, k > 0 && outline(one),
      one.counts.map((n, i) => {
        if (n === 0) return null;
        const top = y(n);
        const from = low + ((high - low) * i) / bins;
        const to = low + ((high - low) * (i + 1)) / bins;
        const where = tickX ? tickX(from) : `${number(from)} to ${number(to)}`;
        return svg("rect", { x: margin.left + i * step + 0.5, width: Math.max(step - 1, 0.6), y: top,
          height: Math.max(height - margin.bottom - top, 0.5), "data-count": n, "data-bin": i, "data-series": k },
          svg("title", {}, `${where}: ${integer(n)}${one.name ? " in " + one.name : ""}`));
      })));
    return canvasOf(width, height, label, axes(width, height, margin, x, y, { x: xLabel, y: log ? `${things} (log)` : things, tickX }), bars);
  }, height);
}

// Ticks as text with as many digits as tell them apart.
function tickTexts(ticks) {
  for (let digits = 3; digits < 8; ++digits) {
    const texts = ticks.map((tick) => number(tick, digits));
    if (new Set(texts).size === ticks.length) return texts;
  }
  return ticks.map((tick) => number(tick, 8));
}

// Of a list of `size` labels, the first, the last and some between them, as many as fit.
function someOf(size, most) {
  const count = Math.min(size, Math.max(most, 2));
  return [...new Set(Array.from({ length: count }, (_, i) => Math.round((i * (size - 1)) / Math.max(count - 1, 1))))];
}

// Lines over labels, or over `positions` of an axis of numbers. Values may be null; a few have dots. `inBytes`: values
// are bytes, and the axis begins at 0. `room`: the axis is at least this part of the values high, so that noise looks
// like noise.
function lines(series, labels, { label, height = 200, log = false, small = false, yLabel = "", xLabel = "", inBytes = false, positions = null, room = 0 } = {}) {
  return chart((width) => {
    const margin = small ? { top: 8, right: 10, bottom: 18, left: 56 } : { top: yLabel ? 26 : 12, right: 16, bottom: xLabel ? 36 : 22, left: 64 };
    const all = series.flatMap((one) => one.values).filter((v) => v !== null && (!log || v > 0));
    if (all.length === 0) return h("p", { class: "note" }, "No values.");
    let [low, high] = all.reduce(([least, most], v) => [Math.min(least, v), Math.max(most, v)], [Infinity, -Infinity]);
    const unit = inBytes ? 1024 ** Math.max(0, Math.floor(Math.log2(Math.max(high, 1)) / 10)) : 1;
    if (inBytes) low = 0;
    const wanted = room * Math.max(Math.abs(low), Math.abs(high));
    if (!log && high - low < wanted) [low, high] = [(low + high - wanted) / 2, (low + high + wanted) / 2];
    if (low === high) [low, high] = log ? [low / 2, high * 2] : [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
    const at = positions || labels.map((_, i) => i);
    const x = d3.scaleLinear().domain([at[0], Math.max(at[at.length - 1], at[0] + 1)]).range([margin.left, width - margin.right]);
    const y = (log ? d3.scaleLog() : d3.scaleLinear()).domain([low / unit, high / unit]).nice(small ? 3 : 5).range([height - margin.bottom, margin.top]);
    const most = Math.floor((width - margin.left) / (small ? 80 : 100));
    const ticks = positions ? x.ticks(Math.max(most, 2)).filter(Number.isInteger).map((tick) => [tick, integer(tick)]) : someOf(labels.length, most).map((i) => [i, shorten(visible(labels[i]), 14)]);
    const ends = ([tick]) => (positions ? "middle" : tick === 0 && labels.length > 1 ? "start" : tick === labels.length - 1 && labels.length > 1 ? "end" : "middle");
    const grid = small ? y.domain() : y.ticks(4).filter((_, i, every) => i % Math.ceil(every.length / 5) === 0);
    const texts = inBytes ? grid.map((tick) => bytes(tick * unit)) : tickTexts(grid);
    const textOf = (v) => (inBytes ? bytes(v) : number(v, 6));
    return canvasOf(width, height, label,
      svg("g", { class: "axis" },
        grid.map((tick, i) => [svg("line", { class: "grid", x1: margin.left, x2: width - margin.right, y1: y(tick), y2: y(tick) }),
          svg("text", { x: margin.left - 6, y: y(tick) + 4, "text-anchor": "end" }, texts[i])]),
        ticks.map((tick) => svg("text", { x: x(tick[0]), y: height - margin.bottom + 14, "text-anchor": ends(tick) }, tick[1])),
        xLabel && svg("text", { class: "label", x: width - margin.right, y: height - 2, "text-anchor": "end" }, xLabel),
        yLabel && svg("text", { class: "label", x: 2, y: 11 }, yLabel)),
      series.map((one) => {
        const points = one.values.map((v, i) => (v === null || (log && v <= 0) ? null : [x(at[i]), y(v / unit)]));
        let path = "";
        points.forEach((point, i) => {
          if (point) path += `${i > 0 && points[i - 1] ? "L" : "M"}${point[0].toFixed(1)},${point[1].toFixed(1)}`;
        });
        const lonely = (i) => !points[i - 1] && !points[i + 1];
        return svg("g", {}, svg("path", { d: path, fill: "none", stroke: one.colour, "stroke-width": small ? 1.5 : 2, "stroke-linejoin": "round" }),
          points.map((point, i) => point && (points.length <= 40 || lonely(i)) && svg("circle", { cx: point[0], cy: point[1], r: small ? 2 : 3, fill: one.colour },
            svg("title", {}, `${visible(labels[i])}: ${one.name ? one.name + " " : ""}${textOf(one.values[i])}`))));
      }));
  }, height);
}

// Points that are links: {x, y, name, link, colour}. On logarithmic axes.
function scatter(points, { label, xLabel, yLabel, height = 340 } = {}) {
  return chart((width) => {
    const margin = { top: 26, right: 16, bottom: 40, left: 60 };
    const values = points.flatMap((point) => [point.x, point.y]);
    let [low, high] = [Math.min(...values), Math.max(...values)];
    if (low === high) [low, high] = [low / 2, high * 2];
    const x = d3.scaleLog().domain([low, high]).nice().range([margin.left, width - margin.right]);
    const y = d3.scaleLog().domain([low, high]).nice().range([height - margin.bottom, margin.top]);
    const [start, end] = x.domain();
    const element = canvasOf(width, height, label, axes(width, height, margin, x, y, { x: xLabel, y: yLabel }),
      svg("line", { class: "diagonal", x1: x(start), y1: y(start), x2: x(end), y2: y(end) }),
      points.map((point) => svg("a", { href: point.link },
        svg("circle", { cx: x(point.x), cy: y(point.y), r: 4.5, fill: point.colour, class: "dot" },
          svg("title", {}, `${visible(shorten(point.name, 300))}\n${point.text}`)))));
    element.setAttribute("role", "group");
    return element;
  }, height);
}

// Bars that lie, with a link each: {name, link, value, text}.
function ranking(rows, { most, colour = INK[0] } = {}) {
  const largest = most || Math.max(...rows.map((row) => (Number.isFinite(row.value) ? row.value : 0)), 1e-300);
  const room = innerWidth < 640 ? 30 : 46; // characters of a name
  return h("ol", { class: "ranking" }, rows.map((row) => {
    const bar = h("span", { class: "bar" });
    bar.style.width = `${100 * Math.min(1, Number.isFinite(row.value) ? row.value / largest : 1)}%`;
    bar.style.background = colour;
    return h("li", {}, row.link ? h("a", { href: row.link, title: visible(shorten(row.name, 300)) }, nameOf(middle(row.name, room))) : nameOf(middle(row.name, room)),
      h("span", { class: "track", "aria-hidden": "true" }, bar), h("span", { class: "value" }, row.text));
  }));
}

// A picture of numbers from 0 (not finite) to 255, `columns` in a row, with the indices of both axes:
// {cells, rows, columns, low, high, down: {axis, size} or null, across: {axis, size}, label}.
function heatMap({ cells, rows, columns, low, high, down, across, label }) {
  const diverges = low < 0 && high > 0;
  const largest = Math.max(Math.abs(low), Math.abs(high));
  const valueOf = (byte) => low + ((high - low) * (byte - 1)) / 254;
  const colourOf = (byte) => diverges ? mixed(DIVERGING, 0.5 + valueOf(byte) / largest / 2) : mixed(RAMP, high > low ? (valueOf(byte) - low) / (high - low) : 0.5);
  const colours = Array.from({ length: 256 }, (_, byte) => (byte === 0 ? NOT_FINITE : colourOf(byte)));
  const canvas = h("canvas", { class: "heat", width: columns, height: rows, role: "img", "aria-label": label });
  const image = canvas.getContext("2d").createImageData(columns, rows);
  cells.forEach((byte, i) => image.data.set([...colours[byte], 255], 4 * i));
  canvas.getContext("2d").putImageData(image, 0, 0);
  const bar = h("canvas", { class: "scale", width: 254, height: 1, "aria-hidden": "true" });
  const scale = bar.getContext("2d").createImageData(254, 1);
  for (let i = 0; i < 254; ++i) scale.data.set([...colours[i + 1], 255], 4 * i);
  bar.getContext("2d").putImageData(scale, 0, 0);
  const about = h("span", { class: "about" });
  const indexOf = (k, count, size) => Math.floor((k * size) / count);
  canvas.addEventListener("pointermove", (event) => {
    const box = canvas.getBoundingClientRect();
    const column = Math.min(Math.max(Math.floor(((event.clientX - box.left) / box.width) * columns), 0), columns - 1);
    const row = Math.min(Math.max(Math.floor(((event.clientY - box.top) / box.height) * rows), 0), rows - 1);
    const byte = cells[row * columns + column];
    const place = [down && indexOf(row, rows, down.size), indexOf(column, columns, across.size)].filter((index) => index !== null).map(integer);
    about.textContent = `[${place.join(", ")}]: ${byte === 0 ? "not finite" : `about ${number(valueOf(byte), 3)}`}`;
  });
  canvas.addEventListener("pointerleave", () => { about.textContent = ""; });
  const frame = chart((width) => {
    const margin = { left: down ? 52 : 4, right: 14, top: down ? 20 : 4, bottom: 34 };
    const ratio = Math.min(Math.max(columns / rows, 0.6), 5);
    const wide = Math.max(Math.min(width - margin.left - margin.right, 460, down ? 400 * ratio : 460), 20);
    const tall = down ? Math.round(wide / ratio) : 36;
    Object.assign(canvas.style, { left: margin.left + "px", top: margin.top + "px", width: wide + "px", height: tall + "px" });
    const ticksOf = (size, length) => d3.scaleLinear().domain([0, size]).ticks(Math.max(1, Math.min(6, length / 60))).filter((tick) => Number.isInteger(tick) && tick < size);
    const [whole, high] = [margin.left + wide + margin.right, margin.top + tall + margin.bottom];
    const element = svg("svg", { viewBox: `0 0 ${whole} ${high}`, width: whole, height: high, "aria-hidden": "true" }, svg("g", { class: "axis" },
      ticksOf(across.size, wide).map((tick) => {
        const x = margin.left + ((tick + 0.5) / across.size) * wide;
        return [svg("line", { x1: x, x2: x, y1: margin.top + tall, y2: margin.top + tall + 4 }), svg("text", { x, y: margin.top + tall + 16, "text-anchor": "middle" }, integer(tick))];
      }),
      down && ticksOf(down.size, tall).map((tick) => {
        const y = margin.top + ((tick + 0.5) / down.size) * tall;
        return [svg("line", { x1: margin.left - 4, x2: margin.left, y1: y, y2: y }), svg("text", { x: margin.left - 7, y: y + 4, "text-anchor": "end" }, integer(tick))];
      }),
      down && svg("text", { class: "label", x: 2, y: 12 }, `axis ${down.axis} ↓`),
      svg("text", { class: "label", x: margin.left + wide, y: margin.top + tall + 30, "text-anchor": "end" }, `axis ${across.axis} →`)));
    return [canvas, element];
  }, down ? 420 : 80, { class: "chart heatframe" });
  const swatch = cells.includes(0) && h("span", { class: "key" }, h("span", { class: "swatch notfinite", "aria-hidden": "true" }), "not finite");
  return h("div", { class: "heatmap" }, frame, h("div", { class: "scalebar" }, h("span", {}, `≤ ${number(low, 3)}`), bar, h("span", {}, `≥ ${number(high, 3)}`), swatch, about));
}
