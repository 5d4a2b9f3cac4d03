// The view of one autoscaler: the server renders it; this script replaces the parts that
// changed, draws the graph and sends actions.
import { address, fetched, follow, morph, zoneIsNew } from "./common.js";
import { offer } from "./acts.js";
import { draw } from "./graph.js";
import { offer as offerWhatIf } from "./whatif.js";

const name = document.body.dataset.name;
const here = location.origin + location.pathname; // without a password in the URL

// All live parts are replaced every 15 seconds, and after each change.
const soon = 200, sometimes = 15_000;
// A simulation is not repeated.
let timer, busy = false, changed = false, instancesCount, where = new URLSearchParams(location.search).has("whatif") ? here : location.href;

function refresh(wait = soon) {
	changed ||= wait < sometimes;
	if (busy) return;
	clearTimeout(timer);
	timer = setTimeout(renew, wait);
}

async function renew() {
	if (document.hidden) return refresh(sometimes);
	busy = true;
	changed = false;
	const asked = where;
	try {
		const page = await fetched(asked.replace(/[?&]instances\b/, ""));
		const parts = [...document.querySelectorAll("[data-live]")];
		if (!page.getElementById("count")) {
			document.querySelector("main").replaceChildren(...page.querySelector("main").childNodes); // the autoscaler was removed
		} else if (!parts.length) {
			location.reload(); // the autoscaler was added again
		}
		for (const part of parts) {
			const fresh = page.getElementById(part.id);
			if (fresh && (part.id !== "why" || asked === where)) morph(part, fresh);
		}
		const count = document.getElementById("count")?.textContent;
		if (instancesCount !== undefined && count !== instancesCount) readInstances();
		instancesCount = count;
		drawing.windowIs(document.getElementById("why").dataset);
	} catch {
		// follow reports a lost connection
	} finally {
		busy = false;
		refresh(changed ? soon : sometimes);
	}
}

/** explainAt shows the decision at a time, or the latest decision for "". */
async function explainAt(at) {
	let part;
	try {
		part = await fetched(`${here}?part=why${at ? `&at=${encodeURIComponent(at)}` : ""}`);
	} catch {
		return; // follow reports a lost connection
	}
	address(where = at ? `${here}?at=${encodeURIComponent(at)}` : here);
	morph(document.getElementById("why"), part.getElementById("why"));
	drawing.windowIs(document.getElementById("why").dataset);
}

async function readInstances() {
	const section = document.getElementById("instances");
	section.setAttribute("aria-busy", "true");
	try {
		const part = await fetched(`${here}?part=instances`);
		morph(section, part.getElementById("instances"));
	} catch {
		// as above
	} finally {
		section.removeAttribute("aria-busy");
	}
}

document.addEventListener("click", (event) => {
	const link = event.target.closest("a");
	if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
	if (link.dataset.at) {
		event.preventDefault();
		explainAt(link.dataset.at).then(() => document.getElementById("why").scrollIntoView({ block: "nearest" }));
	} else if ("now" in link.dataset) {
		event.preventDefault();
		explainAt("");
	} else if ("read" in link.dataset) {
		event.preventDefault();
		readInstances();
	}
});

const drawing = draw(name, here, explainAt);
drawing.windowIs(document.getElementById("why").dataset);
follow(name, () => refresh());
if (zoneIsNew) refresh(0);
readInstances();
const acts = document.getElementById("acts");
if (acts) offer(acts, { name }, () => refresh(0));
if (document.getElementById("whatif")) offerWhatIf(here);
