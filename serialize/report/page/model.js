// The data of the page, and what follows from it. internal/report_json.h describes the JSON.

const QUANTILES = [0.1, 1, 5, 25, 50, 75, 95, 99, 99.9];
let model = null; // kind, archives, tensors (of the last archive), pairs, run, findings

async function unpack() {
  const text = atob(document.getElementById("data").textContent.trim());
  const packed = new Uint8Array(text.length);
  for (let i = 0; i < text.length; ++i) packed[i] = text.charCodeAt(i);
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).json();
}

class TensorOfReport {
  constructor(row, index) {
    this.index = index;
    [this.name, this.dtype, this.dims, this.encoding, this.stored, this.bytes, this.shard, this.offset, this.alias,
      this.error] = row;
    this.setStatistics(row[10], row[11]);
    this.elements = this.dims.reduce((product, dim) => product * dim, 1);
    this.pair = null;
    this.series = null;
    this.lower = null;
  }

  setStatistics(statistics, detail) {
    this.detail = detail || null;
    this.measured = Boolean(statistics);
    const values = statistics || [];
    [this.zeros, this.nans, this.infinities, this.subnormals, this.saturated, this.finite, this.min, this.max, this.mean,
      this.spread, this.deadRows, this.deadColumns, this.group] = values;
    const squares = this.measured && this.mean !== null ? this.mean ** 2 + this.spread ** 2 : null;
    this.rms = squares === null ? null : Math.sqrt(squares);
    this.norm = squares === null ? null : Math.sqrt(squares * this.finite);
  }

  get shape() { return shapeText(this.dims); }
  get ratio() { return this.bytes > 0 && !this.alias ? this.stored / this.bytes : null; }
  get sparsity() { return this.measured && this.elements > 0 ? this.zeros / this.elements : null; }
  get lowerName() { return (this.lower ??= this.name.toLowerCase()); }
  get link() { return tensorLink(this.name); }
  // Whether the sample is the whole tensor.
  get sampled() { return this.detail ? this.detail.n.reduce((product, n) => product * n, 1) < this.elements : false; }
  get sampleSize() { return this.detail ? this.detail.n.reduce((product, n) => product * n, 1) : 0; }
}

function tensorLink(name) {
  return "#tensor=" + encodeURIComponent(name);
}

function buildModel(document) {
  const archives = document.archives.map((archive) => ({
    ...archive,
    tensors: archive.tensors.map((row, index) => new TensorOfReport(row, index)),
  }));
  const last = archives[archives.length - 1];
  const built = { kind: document.kind, live: document.live, include: document.include, rename: document.rename, archives,
    tensors: last.tensors, pairs: [], run: null };
  if (document.pairs) {
    built.pairs = document.pairs.map((row) => pairOf(row, archives));
    // Tensors that only the first file has are shown, too.
    built.tensors = built.pairs.map((pair) => pair.shown);
  }
  if (document.run) built.run = runOf(document.run, built.tensors);
  built.byName = new Map();
  for (const tensor of built.tensors) if (!built.byName.has(tensor.name)) built.byName.set(tensor.name, tensor);
  built.findings = findProblems(built);
  const total = (field) => built.tensors.reduce((sum, tensor) => sum + (tensor.alias ? 0 : tensor[field]), 0);
  built.totals = { bytes: total("bytes"), stored: total("stored"), elements: total("elements") };
  return built;
}

function pairOf(row, archives) {
  const [a, b, kind, different, maxAbsolute, maxRelative, norm, error, detail] = row;
  const pair = { a: a < 0 ? null : archives[0].tensors[a], b: b < 0 ? null : archives[1].tensors[b], kind, different,
    maxAbsolute, maxRelative, norm, error, detail: detail || null };
  pair.shown = pair.b || pair.a;
  pair.otherDType = Boolean(pair.a && pair.b && pair.a.dtype !== pair.b.dtype);
  pair.shown.pair = pair;
  // By how much the tensor moved, as a part of what it was.
  pair.moved = norm === null || !pair.a ? null : pair.a.norm > 0 ? norm / pair.a.norm : norm > 0 ? Infinity : 0;
  return pair;
}

function runOf(run, tensors) {
  const list = (values) => (Array.isArray(values) ? values : run.steps.map(() => values)); // one number: the same in each step
  const series = run.tensors.map(([name, ...lists]) => {
    const [norms, changes, largest, bad, sizes] = lists.map(list);
    return { name, norms, changes, largest, bad, sizes };
  });
  const byName = new Map(series.map((one) => [one.name, one]));
  for (const tensor of tensors) tensor.series = byName.get(tensor.name) || null;
  const steps = run.steps.map(([label, path, bytes, tensors]) => ({ label, path, bytes, tensors }));
  return { steps, series, byName };
}

// "layers.3.weight" and "layers.4.weight" are of one family.
function familyOf(name) {
  return name.replace(/\d+/g, "*");
}

// "layers.3.attention.weight" -> "layers.3": the name up to its first number, or without its last part.
function layerOf(name) {
  const numbered = name.match(/^.*?(?:^|[./_])\d+(?=[./_]|$)/);
  if (numbered) return numbered[0];
  const cut = Math.max(name.lastIndexOf("/"), name.lastIndexOf("."));
  return cut > 0 ? name.slice(0, cut) : name;
}

function median(sorted) {
  const middle = sorted.length >> 1;
  return sorted.length % 2 ? sorted[middle] : (sorted[middle - 1] + sorted[middle]) / 2;
}
