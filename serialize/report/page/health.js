// What may be wrong with the tensors of a file.

const CHECKS = [
  { id: "error", title: "Cannot be read", level: "bad", about: "The file lists these tensors, and their elements cannot be read." },
  { id: "nan", title: "NaN", level: "bad", about: "Elements that are not a number." },
  { id: "inf", title: "Infinite", level: "bad", about: "Elements that are infinite." },
  { id: "norm", title: "Norm far from its family", level: "warn", about: "The root mean square differs from the median of tensors whose names differ only in numbers: by a factor of 2, and by 6 median deviations." },
  { id: "saturated", title: "Saturated", level: "warn", about: "Elements at the largest finite number of their dtype: values may have been cut off." },
  { id: "zero", title: "All zero", level: "warn", about: "Every element is zero." },
  { id: "rows", title: "Dead rows", level: "note", about: "Some indices of the first axis have only zeros." },
  { id: "columns", title: "Dead columns", level: "note", about: "Some columns of a matrix have only zeros." },
  { id: "equal", title: "Equal tensors", level: "note", about: "Tensors of one dtype and shape with the same elements: tied weights, or an initial value that never changed." },
];
const LEVELS = { bad: ["✖", "error"], warn: ["▲", "warning"], note: ["●", "note"] };

function findProblems(built) {
  const found = [];
  const add = (id, tensor, text) => {
    found.push({ id, tensor, text });
    (tensor.problems = tensor.problems || []).push(found[found.length - 1]);
  };
  for (const tensor of built.tensors) {
    if (tensor.error) add("error", tensor, tensor.error);
    if (!tensor.measured || tensor.alias) continue;
    const of = (n) => `${integer(n)} of ${count(tensor.elements, "element")} (${percent(n, tensor.elements)})`;
    if (tensor.nans > 0) add("nan", tensor, of(tensor.nans));
    if (tensor.infinities > 0) add("inf", tensor, of(tensor.infinities));
    if (tensor.saturated > 0) add("saturated", tensor, `${of(tensor.saturated)} are ±${number(Math.max(tensor.max, -tensor.min))}`);
    if (tensor.elements > 1 && tensor.zeros === tensor.elements) {
      add("zero", tensor, count(tensor.elements, "element"));
      continue; // nothing else is news of it
    }
    if (tensor.deadRows > 0) add("rows", tensor, `${integer(tensor.deadRows)} of ${count(tensor.dims[0], "row")}`);
    if (tensor.deadColumns > 0) add("columns", tensor, `${integer(tensor.deadColumns)} of ${count(tensor.dims[1], "column")}`);
  }
  for (const [tensor, text] of outliers(built.tensors)) add("norm", tensor, text);
  const groups = new Map();
  for (const tensor of built.tensors) {
    if (!tensor.measured || tensor.group < 0 || tensor.alias || tensor.zeros === tensor.elements) continue;
    if (!groups.has(tensor.group)) groups.set(tensor.group, []);
    groups.get(tensor.group).push(tensor);
  }
  built.equals = groups;
  for (const members of groups.values()) {
    if (members.length < 2) continue;
    const constant = members[0].min === members[0].max;
    add("equal", members[0], `${count(members.length, "tensor")}${constant ? `, all elements ${number(members[0].min)}` : ""}`);
    found[found.length - 1].others = members.slice(1);
  }
  return found;
}

// [tensor, text] of those whose root mean square is far from that of their family.
function outliers(tensors) {
  const families = new Map();
  for (const tensor of tensors) {
    if (!(tensor.rms > 0) || tensor.alias) continue;
    const key = familyOf(tensor.name) + "\n" + tensor.dims.length;
    if (!families.has(key)) families.set(key, []);
    families.get(key).push(tensor);
  }
  const found = [];
  for (const members of families.values()) {
    if (members.length < 4) continue;
    const logs = members.map((tensor) => Math.log2(tensor.rms));
    const middle = median(logs.slice().sort((x, y) => x - y));
    const deviation = median(logs.map((x) => Math.abs(x - middle)).sort((x, y) => x - y));
    members.forEach((tensor, i) => {
      const distance = logs[i] - middle;
      if (Math.abs(distance) < Math.max(1, 6 * deviation)) return;
      const factor = number(2 ** Math.abs(distance), 3);
      found.push([tensor, `${factor} times ${distance > 0 ? "larger" : "smaller"} than the median of ${count(members.length, "tensor")} of its family`]);
    });
  }
  return found;
}

function healthView() {
  const sections = CHECKS.map((check) => {
    const items = model.findings.filter((one) => one.id === check.id);
    if (items.length === 0) return null;
    const [sign, word] = LEVELS[check.level];
    const shown = items.slice(0, 100);
    return h("section", { class: "card finding", id: "health-" + check.id },
      h("h2", {}, h("span", { class: "level " + check.level, title: word }, sign), " ", check.title, " ",
        h("span", { class: "count" }, integer(items.length))),
      h("p", { class: "note" }, check.about),
      h("ul", { class: "findings" }, shown.map((one) => h("li", {},
        h("a", { href: one.tensor.link }, nameOf(shorten(one.tensor.name, 200))),
        h("span", { class: "what" }, visible(one.text)),
        one.others && h("span", { class: "others" }, "same as ", one.others.slice(0, 6).map((other, i) =>
          [i > 0 && ", ", h("a", { href: other.link }, nameOf(shorten(other.name, 80)))]), one.others.length > 6 && " …")))),
      items.length > shown.length && h("p", { class: "note" }, `${integer(items.length - shown.length)} more: `,
        h("a", { href: "#tensors?problem=" + check.id }, "see all in the table")));
  }).filter(Boolean);
  const passed = CHECKS.filter((check) => !model.findings.some((one) => one.id === check.id));
  return [
    h("h1", {}, "Health"),
    model.kind !== "file" && h("p", { class: "subtitle" }, model.kind === "diff" ? "Of B, " : "Of the last step, ", nameOf(model.archives[model.archives.length - 1].path)),
    sections.length === 0 && h("p", { class: "card empty" }, model.tensors.length === 0
      ? "The file has no tensors: there is nothing to check."
      : "Nothing stands out. All checks below passed."),
    h("div", { class: "stack" }, sections),
    passed.length > 0 && model.tensors.length > 0 && h("p", { class: "note passed" }, "Without a finding: ",
      passed.map((check) => check.title.toLowerCase().replace("nan", "NaN").replace("cannot be read", "unreadable")).join(", "), "."),
  ];
}
