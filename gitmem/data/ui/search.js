// Search as one types, the filters, and rows of memories.
const chosen = { type: "", branch: "", state: "", files: "", scope: "", old: false };
let words = [];
let found = memories;

function text(m) {
  m.text ??= [
    m.title,
    m.body,
    (m.tags || []).join(" "),
    paths(m)
      .map((p) => `${p.path} ${p.now || ""}`)
      .join(" "),
    m.id,
    m.type,
    m.author,
  ]
    .join("\n")
    .toLowerCase();
  return m.text;
}

function passes(m) {
  return (
    (chosen.old || m.status !== "superseded") &&
    (!chosen.type || m.type === chosen.type) &&
    (!chosen.branch || (m.anchor && m.anchor.branch) === chosen.branch) &&
    (!chosen.state || state(m) === chosen.state) &&
    (!chosen.files || (chosen.files === "stale") === isStale(m)) &&
    (!chosen.scope || m.scope === chosen.scope)
  );
}

function search() {
  words = $("query").value.toLowerCase().split(/\s+/).filter(Boolean);
  const all = memories.filter((m) => passes(m) && words.every((word) => text(m).includes(word)));
  const titled = (m) => words.every((word) => (m.title || "").toLowerCase().includes(word));
  found = words.length ? [...all.filter(titled), ...all.filter((m) => !titled(m))] : all;
  show();
}

function count(value) {
  const counts = new Map();
  for (const m of memories) {
    const key = value(m);
    if (key) counts.set(key, (counts.get(key) || 0) + 1);
  }
  return [...counts].sort((a, b) => b[1] - a[1] || (a[0] < b[0] ? -1 : 1));
}

function select(label, key, options) {
  if (options.length < 2) return null;
  const shown = options.map(([value, n, words]) =>
    make("option", { value }, `${words || value} (${n.toLocaleString("en")})`),
  );
  const change = (event) => {
    chosen[key] = event.target.value;
    search();
  };
  return make(
    "label",
    {},
    label,
    make("select", { name: key, onchange: change }, make("option", { value: "" }, "all"), shown),
  );
}

function filters() {
  const stale = memories.filter(isStale).length;
  const old = memories.filter((m) => m.status === "superseded").length;
  const parts = [
    select(
      "Type",
      "type",
      count((m) => m.type),
    ),
    select(
      "Branch",
      "branch",
      count((m) => m.anchor && m.anchor.branch),
    ),
    select(
      "Commit",
      "state",
      count(state).map(([key, n]) => [key, n, STATES[key] && STATES[key][0]]),
    ),
    select(
      "Files",
      "files",
      stale
        ? [
            ["stale", stale, "stale"],
            ["fresh", memories.length - stale, "not stale"],
          ]
        : [],
    ),
    select(
      "Scope",
      "scope",
      count((m) => m.scope),
    ),
    old
      ? make(
          "label",
          {},
          make("input", {
            type: "checkbox",
            onchange: (e) => {
              chosen.old = e.target.checked;
              search();
            },
          }),
          `superseded (${old})`,
        )
      : null,
  ].filter(Boolean);
  $("filters").append(...parts);
  $("filters").addEventListener("submit", (event) => event.preventDefault());
}

/** The text with the words of the search marked. */
function marked(text) {
  if (!words.length || !text) return [text || ""];
  const low = text.toLowerCase();
  if (low.length !== text.length) return [text];
  const out = [];
  for (let at = 0; at < text.length;) {
    const next = words
      .map((w) => [low.indexOf(w, at), w.length])
      .filter(([i]) => i >= 0)
      .sort((a, b) => a[0] - b[0] || b[1] - a[1])[0];
    if (!next) {
      out.push(text.slice(at));
      break;
    }
    out.push(text.slice(at, next[0]), make("mark", {}, text.slice(next[0], next[0] + next[1])));
    at = next[0] + next[1];
  }
  return out;
}

/** A piece of the body, around the first word that was found in it. */
function snippet(m) {
  const body = (m.body || "").replace(/\s+/g, " ");
  const at = Math.min(...words.map((w) => body.toLowerCase().indexOf(w)).filter((i) => i >= 0));
  const title = m.title || "";
  const from = Number.isFinite(at) && at > 60 ? at - 30 : body.startsWith(title) ? title.length : 0;
  const rest = body.slice(from, from + 220).replace(/^[.:;,\s]+/, "");
  return rest ? (from && from !== title.length ? "… " : "") + rest : "";
}

function row(m, brief) {
  const piece = brief ? "" : snippet(m);
  return make(
    "li",
    {},
    make(
      "a",
      { class: "row", href: `#${m.id}`, "aria-current": m.id === open ? "true" : null },
      make("span", { class: "title" }, marked(m.title)),
      piece ? make("span", { class: "snippet" }, marked(piece)) : null,
      make(
        "span",
        { class: "facts" },
        badges(m),
        brief
          ? null
          : [
              make("span", {}, dated(m)),
              make("span", {}, name(m.author)),
              paths(m).length
                ? make(
                    "span",
                    { class: "mono" },
                    marked(paths(m)[0].now || paths(m)[0].path),
                    paths(m).length > 1 ? ` +${paths(m).length - 1}` : "",
                  )
                : null,
            ],
      ),
    ),
  );
}

let more = () => {};
const watcher = new IntersectionObserver(
  (seen) => {
    if (seen.some((s) => s.isIntersecting)) more();
  },
  { root: $("main"), rootMargin: "600px" },
);
/** Fills a list with its first items, and with others when the reader comes near its end. */
function fill(parent, items, each) {
  let at = 0;
  const end = make("div");
  parent.after(end);
  more = () => {
    parent.append(...items.slice(at, at + PART).map(each));
    at += PART;
    if (at < items.length) {
      watcher.unobserve(end);
      watcher.observe(end);
    } else {
      watcher.unobserve(end);
      more = () => {};
    }
  };
  more();
}
