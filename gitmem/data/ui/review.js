// What waits for a decision; only a served page has it.
async function decide(item, given, box) {
  for (const button of box.querySelectorAll("button")) button.disabled = true;
  const asked = {
    method: "POST",
    headers: { "Content-Type": "application/json" },
    body: JSON.stringify({ id: item.id, ...given }),
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

// What a person may say to an item: [label, what is asked of the server].
function choices(item) {
  const accept = { verb: "accept" };
  if (!item.proposal) {
    return [
      ["Accept", accept],
      ["Accept for the team", { ...accept, team: true }],
    ];
  }
  if (!item.choose) return [["Accept", { ...accept, team: item.team }]];
  return item.memories.map((m) => {
    const team = item.memories.some((other) => other !== m && other.scope === "team");
    const shares = team && m.scope === "private" ? " and share it with the team" : "";
    return [`Keep “${m.title || m.id}”${shares}`, { ...accept, keep: m.id, team }];
  });
}

function consequence(item) {
  if (!item.proposal) return "It becomes a private memory, or one of the team's.";
  if (item.choose) return "The other one gives way to it.";
  const where = item.team ? ", and changes the team's notes" : "";
  if (item.kind === "share") return "Accept gives your private version to the team.";
  return `Accept does what is proposed${where}.`;
}

function review() {
  if (!queue.length) $("view").append(make("p", {}, "Nothing waits for a decision."));
  for (const item of queue) {
    const title = item.title || item.kind || "Suggestion";
    const box = make("article", { class: "waiting", "aria-label": title });
    const button = ([label, given]) =>
      make("button", { type: "button", onclick: () => decide(item, given, box) }, label);
    const about = (item.memories || []).map((m) =>
      make(
        "details",
        { open: "" },
        make(
          "summary",
          {},
          m.title || m.id,
          ` (${[m.scope, m.id === item.keep && "stays"].filter(Boolean).join(", ")})`,
        ),
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
        ...choices(item).map(button),
        button(["Reject", { verb: "reject" }]),
        make("span", { class: "soft" }, consequence(item)),
      ),
    );
    $("view").append(box);
  }
}
