// One autoscaler: the server writes all of it; this puts what changed in its place, draws,
// and acts.
import { fetched, follow, morph, zoneIsNew } from "./common.js";
import { offer } from "./acts.js";
import { draw } from "./graph.js";

const name = document.body.dataset.name;
const here = location.pathname;

/** refresh puts all live parts in their place as they are now. */
let pending, instancesCount;
function refresh(wait = 200) {
	clearTimeout(pending);
	pending = setTimeout(async () => {
		try {
			const page = await fetched(location.href.replace(/[?&]instances\b/, ""));
			if (!page.getElementById("count")) {
				document.querySelector("main").replaceChildren(...page.querySelector("main").childNodes); // it is gone
				return;
			}
			for (const part of document.querySelectorAll("[data-live]")) {
				const fresh = page.getElementById(part.id);
				if (fresh) morph(part, fresh);
			}
			drawing.windowIs(document.getElementById("why").dataset);
			const count = document.getElementById("count").textContent;
			if (instancesCount !== undefined && count !== instancesCount) readInstances();
			instancesCount = count;
		} catch {
			// the stream says that there is no connection
		}
		pending = setTimeout(refresh, 15_000);
	}, wait);
}

/** explainAt shows why at another time, or with "" now. */
async function explainAt(at) {
	history.replaceState(null, "", at ? `${here}?at=${encodeURIComponent(at)}` : here);
	const part = await fetched(`${here}?part=why${at ? `&at=${encodeURIComponent(at)}` : ""}`);
	morph(document.getElementById("why"), part.getElementById("why"));
	drawing.windowIs(document.getElementById("why").dataset);
}

async function readInstances() {
	const section = document.getElementById("instances");
	section.setAttribute("aria-busy", "true");
	try {
		const part = await fetched(`${here}?part=instances`);
		morph(section, part.getElementById("instances"));
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
follow("", name, (look) => {
	if (look.all || look.rows.length) refresh();
});
if (zoneIsNew) refresh(0);
readInstances();
const acts = document.getElementById("acts");
if (acts) offer(acts, { name }, () => refresh(0));
