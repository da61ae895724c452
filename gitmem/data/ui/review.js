// What waits for a decision; only a served page has it.
async function decide(item, verb, box) {
  for (const button of box.querySelectorAll("button")) button.disabled = true;
  const asked = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ id: item.id, verb }),
  };
  let done = { status: "refused", reason: "git mem ui does not answer; is it still running?" };
  try {
    const answer = await fetch("review", asked);
    if (answer.ok) done = await answer.json();
  } catch {
    /* it has ended */
  }
  const refused = done.status === "refused";
  const said = make(
    "p",
    { role: "status", tabindex: "-1", class: refused ? "bad" : "good" },
    refused ? done.reason : done.said,
  );
  if (refused) {
    for (const button of box.querySelectorAll("button")) button.disabled = false;
    for (const old of box.querySelectorAll("[role=status]")) old.remove();
    box.append(said);
  } else {
    queue.splice(queue.indexOf(item), 1);
    box.replaceChildren(said);
  }
  said.focus();
}

function review() {
  if (!queue.length) $("view").append(make("p", {}, "Nothing waits for a decision."));
  for (const item of queue) {
    const title = item.title || item.kind || "Suggestion";
    const box = make("article", { class: "waiting", "aria-label": title });
    const button = (label, verb) =>
      make("button", { type: "button", onclick: () => decide(item, verb, box) }, label);
    const about = (item.memories || []).map((m) =>
      make(
        "details",
        { open: "" },
        make("summary", {}, m.title || m.id, m.id === item.keep ? " (stays)" : ""),
        make("p", { class: "body", dir: "auto" }, m.body || ""),
      ),
    );
    box.append(
      make("h2", {}, title),
      make(
        "p",
        { class: "facts" },
        badge(item.proposal ? item.kind : item.type || "suggestion"),
        make("span", {}, day(item.created_at)),
        typeof item.confidence === "number"
          ? make("span", {}, `confidence ${Math.round(100 * item.confidence)} %`)
          : null,
      ),
      ...(item.body ? [make("p", { class: "body", dir: "auto" }, item.body)] : []),
      ...about,
      make(
        "p",
        {},
        button("Accept", "accept"),
        button("Reject", "reject"),
        make(
          "span",
          { class: "soft" },
          item.proposal ? "Accept does what is proposed." : "Accept stores it as a private memory.",
        ),
      ),
    );
    $("view").append(box);
  }
}
