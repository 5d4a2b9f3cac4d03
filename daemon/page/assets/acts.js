// What people may do: each act is asked about first, and says what was done.
import { data, element } from "./common.js";

/** ask shows a dialog that does something when it is confirmed, and tells what came of it. */
function ask(title, fields, confirm, act, done) {
	const told = element("p", { className: "problem attention", hidden: true });
	told.setAttribute("role", "alert");
	const yes = element("button", { className: "main", textContent: confirm }), no = element("button", { type: "button", textContent: "Cancel" });
	const form = element("form", { method: "dialog" }, element("h2", { textContent: title }), ...fields, told, element("div", { className: "buttons" }, no, yes));
	const dialog = element("dialog", { ariaLabel: title }, form);
	no.addEventListener("click", () => dialog.close());
	dialog.addEventListener("close", () => dialog.remove());
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		yes.disabled = true;
		try {
			const text = await act(Object.fromEntries(new FormData(form)));
			form.replaceChildren(element("h2", { textContent: "Done" }), element("p", { textContent: text }), element("div", { className: "buttons" }, no));
			no.textContent = "Close";
			no.focus();
			done();
		} catch (problem) {
			told.textContent = problem.message;
			told.hidden = false;
			yes.disabled = false;
		}
	});
	document.body.append(dialog);
	dialog.showModal();
}

function choice(label, name, options) {
	const select = element("select", { name });
	for (const [value, text] of options) select.add(new Option(text, value));
	return element("label", {}, label, select);
}

const input = (label, properties) => element("label", {}, label, element("input", properties));
const stamp = () => new Date().toLocaleTimeString();
const directions = [["both", "up and down"], ["down", "down alone"], ["up", "up alone"]];
const lengths = [["30m", "30 minutes"], ["2h", "2 hours"], ["8h", "8 hours"], ["24h", "a day"], ["", "until somebody resumes"]];

/** offer puts buttons into a place: for the autoscaler of a name, or for all. */
export function offer(place, { name }, done) {
	const path = name ? `api/v1/autoscalers/${encodeURIComponent(name)}` : "api/v1", what = name ? `“${name}”` : "all autoscalers";
	const add = (text, click) => {
		const button = element("button", { type: "button", textContent: text });
		button.addEventListener("click", click);
		place.append(button);
	};

	add(name ? "Pause…" : "Pause all…", () => ask(`Pause ${what}`, [
		choice("Which changes are held", "direction", directions), choice("For how long", "for", lengths),
		input("Why (everybody will see it)", { name: "reason", autocomplete: "off", maxLength: 200 }),
	], "Pause", async (given) => {
		const pause = await data(`${path}/pause`, given);
		return `${pause?.message ?? "It has ended by now."} (${stamp()})`;
	}, done));

	add(name ? "Resume…" : "Resume all…", async () => {
		const scopes = { ended: [] };
		try {
			const inForce = await data("api/v1/pauses");
			scopes.ended = inForce.filter((pause) => (name ? pause.autoscaler === name : !pause.autoscaler && !pause.fleet));
			scopes.wider = name ? inForce.filter((pause) => !pause.autoscaler) : [];
		} catch {
			scopes.wider = [];
		}
		const said = [...scopes.ended.map((pause) => pause.message), ...scopes.wider.map((pause) => `${pause.message} (this is ended for its fleet, or for all)`)];
		ask(`Resume ${what}`, [element("p", { textContent: said.join(" ") || "No pause of it is in force." })], "Resume", async () => {
			const ended = await data(`${path}/resume`, {});
			return `Resumed at ${stamp()}. It was: ${ended.message}`;
		}, done);
	});

	if (!name) {
		add("Reload…", async () => {
			const list = element("pre", { textContent: "reading the configuration…", tabIndex: 0 });
			ask("Reload the configuration", [element("p", { textContent: "This would change:" }), list], "Reload", async () => {
				const { changes } = await data("-/reload", {});
				return `Reloaded at ${stamp()}, ${changes.length === 1 ? "1 change" : `${changes.length} changes`}.`;
			}, done);
			try {
				const { changes } = await data("api/v1/status/reload");
				list.textContent = changes.map(line).join("\n") || "nothing";
			} catch (problem) {
				list.textContent = `It would be refused: ${problem.message}`;
			}
		});
		return;
	}

	add("Scale once…", () => ask(`Set the count of ${what} once`, [
		element("p", { textContent: "The metrics decide again from the next pass on." }),
		input("Replicas", { name: "replicas", type: "number", min: 0, required: true }),
		element("label", { className: "check" }, element("input", { type: "checkbox", name: "force" }), "also outside of its bounds"),
	], "Scale", async (given) => {
		const view = await data(`${path}/scale`, { replicas: Number(given.replicas), force: given.force === "on" });
		return `Asked for ${given.replicas} at ${stamp()}; the count is ${view.status.current_replicas}, ${view.status.desired_replicas} is wanted.`;
	}, done));

	add("Evaluate now…", () => ask(`Evaluate ${what} now`, [element("p", { textContent: "It is evaluated once more, besides its period." })], "Evaluate", async () => {
		const view = await data(`${path}/evaluate`, {});
		return `Evaluated at ${stamp()}: ${view.decision?.message ?? view.evaluation.reason}`;
	}, done));
}

/** line writes a change of the configuration as the command line does. */
function line({ key, before = "", after = "", kind, next_start: later, note }) {
	let text = { added: "+ ", removed: "- ", changed: "~ " }[kind] + key;
	if (before && after) text += before === after ? ": another value" : `: ${before} → ${after}`;
	else if (before || after) text += `: ${before}${after}`;
	else if (kind === "changed") text += ": a value that is not shown";
	return text + (later ? " (at the next start)" : "") + (note ? `: ${note}` : "");
}
