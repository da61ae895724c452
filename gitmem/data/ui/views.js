// Lists, the timeline and communities.
function list() {
  const rows = make("ol", { class: "rows" });
  $("view").append(rows);
  fill(rows, found, (m) => row(m));
}

function timeline() {
  const groups = new Map();
  for (const m of found) {
    const key = place(m);
    if (!groups.has(key)) groups.set(key, []);
    groups.get(key).push(m);
  }
  const when = (key, items) =>
    (commits[key] && commits[key].date) || items.map(dated).sort().pop() || "";
  const order = [...groups]
    .map(([key, items]) => ({ key, items, date: when(key, items) }))
    .sort((a, b) => (a.date < b.date ? 1 : a.date > b.date ? -1 : 0));
  const rows = make("ol", { class: "line" });
  $("view").append(rows);
  fill(rows, order, ({ key, items, date }) => {
    const shown = items.slice(0, 5);
    const rest = items.slice(5);
    const inside = make(
      "ul",
      {},
      shown.map((m) => row(m, true)),
    );
    const other = rest.length
      ? make(
          "button",
          {
            onclick: (e) => {
              inside.append(...rest.map((m) => row(m, true)));
              e.target.remove();
            },
          },
          `${many(rest.length, "more memory")}`,
        )
      : null;
    const branches = [...new Set(items.map((m) => m.anchor && m.anchor.branch).filter(Boolean))];
    return make(
      "li",
      { class: state(items[0]) },
      make(
        "p",
        { class: "subject" },
        make("span", { class: "soft" }, date, " "),
        key ? make("code", {}, key.slice(0, 8)) : "without a commit",
        " ",
        commits[key]
          ? commits[key].subject
          : key
            ? make("span", { class: "soft" }, "(not in this clone)")
            : "",
        " ",
        branches.map((b) => [badge(b, state(items[0]) === "unmerged" ? "warn" : ""), " "]),
      ),
      inside,
      other,
    );
  });
}

function communities() {
  for (const group of data.communities) {
    $("view").append(
      make(
        "h2",
        {},
        many(group.size, "memory"),
        group.paths ? [" about ", make("span", { class: "mono" }, group.paths.join(", "))] : "",
      ),
      make(
        "ul",
        { class: "rows" },
        group.central.map((node) => (byId.has(node.id) ? row(byId.get(node.id)) : null)),
      ),
    );
  }
}
