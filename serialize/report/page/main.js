// Which view is shown: the part of the address behind #.

const VIEWS = { overview: ["Overview", overviewView], health: ["Health", healthView], changes: ["Changes", changesView], steps: ["Steps", stepsView], tensors: ["Tensors", tableView] };

function route() {
  const text = location.hash.slice(1);
  if (text.startsWith("tensor=")) {
    let name = text.slice("tensor=".length);
    try { name = decodeURIComponent(name); } catch (error) { /* the text as it is */ }
    return { view: "tensor", name };
  }
  const [view, query] = text.split(/\?(.*)/s);
  return { view: view in VIEWS && isOffered(view) ? view : "overview", parameters: new URLSearchParams(query || "") };
}

function isOffered(view) {
  return view === "changes" ? model.kind === "diff" : view === "steps" ? model.kind === "run" : true;
}

function show() {
  if (tableView.leave) tableView.leave();
  tableView.leave = tableView.print = null;
  const { view, name, parameters } = route();
  const main = document.getElementById("main");
  main.className = "view-" + view;
  main.replaceChildren(...[view === "tensor" ? tensorView(name) : VIEWS[view][1](parameters)].flat(3).filter(Boolean));
  for (const link of document.querySelectorAll("#views a")) {
    const current = link.dataset.view === (view === "tensor" ? "tensors" : view);
    if (current) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = `${visible(shorten(view === "tensor" ? name : fileName(model.archives[model.archives.length - 1].path), 120))} – ${view === "tensor" ? "tensor" : VIEWS[view][0].toLowerCase()} – tensorcask report`;
  scrollTo(0, 0);
}

// The map is drawn in the colours of the theme.
function redraw() {
  if (route().view !== "overview") return;
  const top = scrollY;
  show();
  scrollTo(0, top);
}

function drawHeader() {
  const bad = model.findings.filter((one) => ["error", "nan", "inf"].includes(one.id)).length;
  document.getElementById("views").replaceChildren(...Object.entries(VIEWS).filter(([view]) => isOffered(view)).map(([view, [title]]) =>
    h("a", { href: "#" + view, "data-view": view }, title, view === "health" && model.findings.length > 0 && h("span", { class: "bubble" + (bad ? " bad" : "") }, integer(model.findings.length)))));
  const themes = ["auto", "light", "dark"];
  const names = { auto: "Theme: as the system", light: "Theme: light", dark: "Theme: dark" };
  const button = document.getElementById("theme");
  let theme = "auto";
  button.hidden = false;
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", redraw);
  button.addEventListener("click", () => {
    theme = themes[(themes.indexOf(theme) + 1) % themes.length];
    document.documentElement.dataset.theme = theme;
    button.setAttribute("aria-label", names[theme]);
    button.title = names[theme];
    button.textContent = { auto: "◐", light: "☀", dark: "☾" }[theme];
    redraw();
  });
}

addEventListener("hashchange", () => {
  show();
  document.getElementById("main").focus({ preventScroll: true });
});
addEventListener("keydown", (event) => {
  if (event.key === "Escape") {
    for (const menu of document.querySelectorAll("details.menu[open]")) {
      menu.open = false;
      menu.querySelector("summary").focus();
    }
  }
  if (event.ctrlKey || event.metaKey || event.altKey || /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName)) return;
  if (event.key === "/") {
    event.preventDefault();
    if (!document.getElementById("search")) { location.hash = "#tensors"; show(); }
    setTimeout(() => document.getElementById("search").focus());
  } else if (event.key === "[" || event.key === "]") {
    const link = document.querySelector(`#main a[rel=${event.key === "[" ? "prev" : "next"}]`);
    if (link) link.click();
  }
});
// In a frame of a notebook (about:srcdoc) a link to #... would lead to the notebook's own address.
if (location.protocol === "about:") {
  addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    if (location.hash === link.getAttribute("href")) show();
    else location.hash = link.getAttribute("href");
  });
}
// The open menu closes when something else is chosen.
addEventListener("click", (event) => {
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
});
// Paper has no scroll bars: a table is printed with its first 500 rows, and charts as they are.
addEventListener("beforeprint", () => tableView.print && tableView.print(true));
addEventListener("afterprint", () => tableView.print && tableView.print(false));

unpack().then((document) => {
  model = buildModel(document);
  drawHeader();
  show();
}).catch((error) => {
  document.getElementById("main").replaceChildren(h("h1", {}, "This page cannot be shown"), h("p", { class: "card problem" }, typeof DecompressionStream === "undefined"
    ? "The browser is too old: it lacks DecompressionStream, which browsers have since 2023." : `The data of the page cannot be read: ${error.message}`));
}).then(() => {
  document.documentElement.dataset.ready = String(Math.round(performance.now()));
});
