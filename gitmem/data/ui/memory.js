// One memory with all that is known of it.
let open = "";
let before = null; // what had the focus

function pair(term, ...children) {
  const known = children
    .flat(9)
    .filter((child) => child !== null && child !== undefined && child !== "");
  return known.length ? [make("dt", {}, term), make("dd", {}, known)] : [];
}
const link = (id) =>
  byId.has(id)
    ? make("a", { href: `#${id}` }, `${id.slice(0, 8)} ${byId.get(id).title}`)
    : make("code", {}, id.slice(0, 8));
const named = (commit) =>
  commit
    ? [
        make("code", {}, commit.slice(0, 12)),
        commits[commit] ? ` ${commits[commit].subject} (${commits[commit].date})` : "",
      ]
    : [];

function pathLine(p) {
  const [said, kind] = FILES[p.state] || [p.state, ""];
  return make(
    "li",
    {},
    badge(said, kind),
    " ",
    make("code", {}, p.path, p.lines ? `:${p.lines}` : ""),
    p.now && p.now !== p.path ? [" → ", make("code", {}, p.now)] : null,
    p.lines_now && p.lines_now !== p.lines ? ` now lines ${p.lines_now}` : null,
    p.reason ? ` (${p.reason})` : null,
  );
}

const OPS = { create: "remembered", edit: "edited", forget: "forgotten", restore: "restored" };
function version(h, i, all) {
  const old = h.body !== undefined && all.slice(i + 1).some((later) => later.body !== undefined);
  return make(
    "li",
    {},
    `${OPS[h.op] || h.op} ${day(h.at)} ${name(h.author)}`,
    h.reason ? `: ${h.reason}` : "",
    old
      ? make(
          "details",
          {},
          make("summary", {}, h.title),
          make("p", { class: "body", dir: "auto" }, h.body),
        )
      : null,
  );
}

function detail(m) {
  const a = m.anchor || {};
  const section = (title, ...children) =>
    children.flat().length ? [make("h3", {}, title), ...children.flat()] : [];
  return [
    make(
      "div",
      { class: "top" },
      make("h2", { dir: "auto" }, m.title),
      make("button", { onclick: close }, "Close"),
    ),
    make("div", { class: "detail-badges" }, badges(m, true)),
    make("p", { class: "body", dir: "auto" }, m.body),
    section("Files", paths(m).length ? make("ul", {}, paths(m).map(pathLine)) : []),
    section(
      "Commit",
      make(
        "dl",
        {},
        pair("commit", named(a.commit)),
        pair("merged as", named(a.squashed_into)),
        pair("branch", a.branch),
        pair(
          "state",
          `${STATES[state(m)] ? STATES[state(m)][0] : state(m)}${a.reason ? ` (${a.reason})` : ""}`,
        ),
      ),
    ),
    section(
      "About it",
      make(
        "dl",
        {},
        pair("id", make("code", {}, m.id)),
        pair("author", m.author),
        pair("date", dated(m)),
        pair("tags", (m.tags || []).join(", ")),
        ["phase", "subtitle", "source", "provenance", "agent", "session"].map((key) =>
          pair(key, m[key]),
        ),
        ["facts", "concepts"].map((key) => pair(key, [m[key] || []].flat().join("; "))),
        pair(
          "confidence",
          typeof m.confidence === "number" ? `${Math.round(100 * m.confidence)} %` : "",
        ),
        pair(
          "use",
          m.use
            ? `used ${m.use.used}, not used ${m.use.ignored}, contradicted ${m.use.contradicted}`
            : "",
        ),
        pair(
          "signature",
          m.signature
            ? typeof m.signature === "string"
              ? m.signature
              : [m.signature.state, m.signature.signer].filter(Boolean).join(", ")
            : "",
        ),
        pair(
          "superseded by",
          [m.superseded_by || []].flat().map((id) => make("div", {}, link(id))),
        ),
        pair(
          "supersedes",
          [m.supersedes || []].flat().map((id) => make("div", {}, link(id))),
        ),
        pair(
          "contradicts",
          (m.contradicts || []).map((id) => make("div", {}, link(id))),
        ),
      ),
    ),
    section(
      "Other versions",
      (m.alternatives || []).map((v) =>
        make(
          "details",
          {},
          make("summary", {}, v.title),
          make("p", { class: "body", dir: "auto" }, v.body),
        ),
      ),
    ),
    section("History", m.history ? make("ol", { class: "history" }, m.history.map(version)) : []),
    make("p", { class: "soft" }, make("code", {}, `git mem show ${m.id.slice(0, 8)}`)),
  ].flat(9);
}

function route() {
  const m = byId.get(decodeURIComponent(location.hash.slice(1)));
  if (m && !open) before = document.activeElement;
  open = m ? m.id : "";
  $("detail").hidden = !m;
  $("detail").replaceChildren(...(m ? detail(m) : []));
  for (const at of document.querySelectorAll(".row")) {
    if (m && at.hash === `#${m.id}`) at.setAttribute("aria-current", "true");
    else at.removeAttribute("aria-current");
  }
  if (m) {
    $("detail").scrollTop = 0;
    $("detail").focus({ preventScroll: true });
  }
}

function close() {
  const last = open;
  history.replaceState(null, "", location.pathname + location.search);
  route();
  const at = [...document.querySelectorAll(".row")].find((r) => r.hash === `#${last}`) || before;
  if (at && at.isConnected) at.focus();
}
