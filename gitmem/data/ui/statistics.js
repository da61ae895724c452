// Counts, and what became of what agents were told.
function bars(title, rows) {
  const top = Math.max(1, ...rows.map((r) => r[1]));
  const each = ([label, n]) => {
    const bar = make("div", { class: "bar" });
    bar.style.width = `${(100 * n) / top}%`;
    return make(
      "tr",
      {},
      make("th", { scope: "row" }, label),
      make("td", {}, bar),
      make("td", { class: "number" }, n.toLocaleString("en")),
    );
  };
  return rows.length
    ? [make("h2", {}, title), make("table", { class: "bars" }, make("tbody", {}, rows.map(each)))]
    : [];
}

function growth() {
  const months = new Map(count((m) => dated(m).slice(0, 7)));
  const names = [...months.keys()].sort();
  if (names.length < 2) return [];
  const all = [];
  const month = (n) => `${Math.floor(n / 12)}-${String((n % 12) + 1).padStart(2, "0")}`;
  const number = (m) => Number(m.slice(0, 4)) * 12 + Number(m.slice(5, 7)) - 1;
  for (let n = number(names[0]); n <= number(names.at(-1)); n++) all.push(month(n));
  const shown = all.slice(-36);
  const top = Math.max(1, ...shown.map((m) => months.get(m) || 0));
  const svg = (tag, attributes, ...children) => {
    const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
    for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
    element.append(...children);
    return element;
  };
  const wide = 720 / shown.length;
  const columns = shown.map((m, i) => {
    const n = months.get(m) || 0;
    const high = (110 * n) / top;
    return svg(
      "rect",
      {
        x: i * wide + 1,
        y: 130 - high,
        width: Math.max(1, Math.min(wide - 2, 40)),
        height: high,
        rx: 2,
      },
      svg("title", {}, `${m}: ${n}`),
    );
  });
  const span = `from ${shown[0]} to ${shown.at(-1)}`;
  const said = `New memories by month ${span}, at most ${top} in one month`;
  return [
    make("h2", {}, "Growth: new memories by month"),
    svg(
      "svg",
      { class: "growth", viewBox: "0 0 720 156", role: "img", "aria-label": said },
      ...columns,
      svg("text", { x: 0, y: 152 }, shown[0]),
      svg("text", { x: 720, y: 152, "text-anchor": "end" }, shown.at(-1)),
      svg("text", { x: 0, y: 16 }, `${top} at most`),
    ),
  ];
}

const TOLD = { told: "injected", used: "used", "not used": "ignored" };
/** Rows of numbers; `columns`: what stands in the head, and a key of a row or a function of it. */
function table(title, first, rows, columns) {
  if (!rows || !Object.keys(rows).length) return [];
  const head = (text, number) => make("th", { scope: "col", class: number && "number" }, text);
  const cell = (n, key) => {
    const value = typeof key === "function" ? key(n) : n[key];
    return make("td", { class: "number" }, value.toLocaleString("en"));
  };
  const line = ([name, n]) =>
    make(
      "tr",
      {},
      make("th", { scope: "row" }, name),
      Object.values(columns).map((key) => cell(n, key)),
    );
  return [
    make("h2", {}, title),
    make(
      "table",
      {},
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          head(first),
          Object.keys(columns).map((text) => head(text, true)),
        ),
      ),
      make("tbody", {}, Object.entries(rows).map(line)),
    ),
  ];
}

const FEWEST = 20; // of fewer a share says little, as for `git mem calibrate`
const share = (part, of) => (of < FEWEST ? "too few" : `${Math.round((100 * part) / of)} %`);
/** What use and review showed, beside the confidence stated before. */
function reliability(feedback) {
  const tables = [
    ...table("Reliability of confidence: memories told", "stated", feedback.by_confidence, {
      told: "injected",
      used: "used",
      "share used": (n) => share(n.used, n.injected),
      contradicted: "contradicted",
    }),
    ...table("Reliability of confidence: suggestions decided", "stated", feedback.decided, {
      accepted: "accepted",
      rejected: "rejected",
      "share accepted": (n) => share(n.accepted, n.accepted + n.rejected),
    }),
  ];
  const about =
    "Confidence is reliable where a higher band is used or accepted more, and contradicted less." +
    ` Of fewer than ${FEWEST} no share is shown. Not used is not wrong: the task may have been` +
    " another.";
  return tables.length ? [...tables, make("p", { class: "soft below" }, about)] : [];
}

function statistics() {
  const active = memories.filter((m) => m.status !== "superseded");
  const numbers = [
    ["memories", active.length],
    ["team", active.filter((m) => m.scope === "team").length],
    ["private", active.filter((m) => m.scope === "private").length],
    ["stale", active.filter(isStale).length],
    ["unmerged", active.filter((m) => state(m) === "unmerged").length],
    ["superseded", memories.length - active.length],
  ];
  const feedback = data.feedback || {};
  const nothing =
    !feedback.injected && !data.scope
      ? [
          make("h2", {}, "Told to agents"),
          make("p", { class: "soft" }, "Nothing yet. git mem install claude connects an agent."),
        ]
      : [];
  $("view").append(
    make(
      "div",
      { class: "cards" },
      numbers.map(([label, n]) =>
        make("div", { class: "card" }, make("strong", {}, n.toLocaleString("en")), label),
      ),
    ),
    ...growth(),
    ...bars(
      "Types",
      count((m) => m.type),
    ),
    ...bars("Authors", count((m) => name(m.author)).slice(0, 10)),
    ...table("Told to agents, by type", "type", feedback.by_type, TOLD),
    ...table("Told to agents, by route", "route", feedback.by_route, TOLD),
    ...nothing,
    ...reliability(feedback),
  );
}
