"use strict";
// Memories come from the script element `data` and go into the page as text, never as markup.
const data = JSON.parse(document.getElementById("data").textContent);
const memories = data.memories || [];
const byId = new Map(memories.map((m) => [m.id, m]));
const commits = data.commits || {};
const served = data.served === true; // only then is there somebody to decide
const PART = 100; // rows made at a time

const $ = (id) => document.getElementById(id);
/** An element with attributes and children; what is null is left out, strings become text. */
function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else if (value !== null && value !== undefined && value !== false)
      element.setAttribute(name, value);
  }
  element.append(
    ...children.flat(9).filter((child) => child !== null && child !== undefined && child !== ""),
  );
  return element;
}
const many = (n, one) =>
  `${n.toLocaleString("en")} ${n === 1 ? one : one.replace(/y$/, "ie") + "s"}`;
const day = (time) => (time || "").slice(0, 10);
const name = (author) => (author || "").replace(/\s*<.*>$/, "");

const STALE = ["changed", "gone"];
const paths = (m) => m.paths || [];
const isStale = (m) => paths(m).some((p) => STALE.includes(p.state));
const state = (m) => (m.anchor && m.anchor.state) || "unknown";
const place = (m) => (m.anchor && (m.anchor.squashed_into || m.anchor.commit)) || "";
const dated = (m) => day(m.created_at);
const STATES = {
  reachable: ["on this branch", "good"],
  squashed: ["merged by squash", "good"],
  unmerged: ["unmerged", "warn"],
  unknown: ["commit unknown", ""],
};
const FILES = {
  same: ["unchanged", "good"],
  changed: ["changed", "warn"],
  renamed: ["renamed", "good"],
  gone: ["gone", "bad"],
  unknown: ["unknown", ""],
};
const badge = (text, kind) => make("span", { class: `badge ${kind || ""}` }, text);

function badges(m, whole) {
  return [
    badge(m.type || "memory"),
    m.scope === "private" ? badge("private", "secret") : whole ? badge("team") : null,
    m.status === "superseded" ? badge("superseded", "warn") : null,
    isStale(m) ? badge("stale", "bad") : null,
    whole || state(m) === "unmerged" ? badge(...STATES[state(m)]) : null,
    m.contradicts ? badge("contradicted", "bad") : null,
    m.alternatives ? badge("edited in two places", "warn") : null,
  ];
}
