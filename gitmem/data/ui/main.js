// The views, keys, and the beginning.
const queue = data.queue || [];
const VIEWS = { Memories: [list, true], Timeline: [timeline, true] };
if (data.communities && data.communities.length) VIEWS.Communities = [communities, false];
VIEWS.Statistics = [statistics, false];
if (served) VIEWS.Review = [review, false];
let view = "Memories";

function show() {
  const [draw, narrowed] = VIEWS[view];
  watcher.disconnect();
  more = () => {};
  $("view").replaceChildren();
  $("main").scrollTop = 0;
  $("filters").hidden = !narrowed || !$("filters").children.length;
  const all = many(memories.length, "memory");
  const part = `${found.length.toLocaleString("en")} of ${all}`;
  $("count").textContent = !narrowed
    ? ""
    : !memories.length
      ? "No memories yet: git mem remember stores the first."
      : found.length
        ? found.length === memories.length
          ? all
          : part
        : "No memory has all these words under these filters.";
  for (const button of $("views").children) {
    if (button.textContent === view) button.setAttribute("aria-current", "page");
    else button.removeAttribute("aria-current");
  }
  draw();
}

function step(by) {
  const rows = [...document.querySelectorAll(".row")];
  const at = rows.findIndex(
    (r) =>
      r === document.activeElement ||
      ($("detail").contains(document.activeElement) && r.hash === `#${open}`),
  );
  const next = at < 0 ? 0 : at + by;
  if (next >= rows.length) more();
  const to = rows[next] || document.querySelectorAll(".row")[next];
  if (!to) return;
  to.focus();
  if (open && byId.has(to.hash.slice(1))) {
    location.replace(to.hash);
  }
}

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
  const typing = event.target.matches("input[type=search], select");
  if (event.key === "Escape") {
    if (open) close();
    else if (event.target === $("query")) {
      $("query").value = "";
      search();
      $("query").blur();
    }
  } else if (event.target === $("query") && (event.key === "Enter" || event.key === "ArrowDown")) {
    event.preventDefault();
    const first = document.querySelector(".row");
    if (first) first.focus();
  } else if (typing) {
    return;
  } else if (event.key === "/") {
    event.preventDefault();
    $("query").focus();
    $("query").select();
  } else if (event.key === "j" || event.key === "k") {
    event.preventDefault();
    step(event.key === "j" ? 1 : -1);
  }
});

document.title = `git mem: ${data.repository || ""}`;
$("place").textContent = [
  data.repository,
  data.branch,
  (data.head || "").slice(0, 8),
  data.scope ? `${data.scope} memories only` : "",
]
  .filter(Boolean)
  .join(" · ");
for (const title of Object.keys(VIEWS))
  $("views").append(
    make(
      "button",
      {
        type: "button",
        onclick: () => {
          view = title;
          show();
        },
      },
      title,
    ),
  );
filters();
$("query").addEventListener("input", () => {
  if (!VIEWS[view][1]) view = "Memories";
  search();
});
window.addEventListener("hashchange", route);
search();
route();
document.documentElement.dataset.ready = "yes";
