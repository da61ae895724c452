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
  const feedback = (data.feedback && data.feedback.feedback) || {};
  const told = (title, rows) =>
    rows && Object.keys(rows).length
      ? [
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
                ["", "told", "used", "not used"].map((t, i) =>
                  make("th", { scope: "col", class: i ? "number" : null }, t),
                ),
              ),
            ),
            make(
              "tbody",
              {},
              Object.entries(rows).map(([key, n]) =>
                make(
                  "tr",
                  {},
                  make("th", { scope: "row" }, key),
                  [n.injected, n.used, n.ignored].map((v) =>
                    make("td", { class: "number" }, v.toLocaleString("en")),
                  ),
                ),
              ),
            ),
          ),
        ]
      : [];
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
    ...told("Told to agents, by type", feedback.by_type),
    ...told("Told to agents, by route", feedback.by_route),
    ...nothing,
  );
}
