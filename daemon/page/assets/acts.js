// The actions of operators. Each action has a dialog, and reports its result, author and time.
import { clock, data, element, now } from "./common.js";

const who = document.body.dataset.author || "you";
const stamp = () => `at ${clock(now())} by ${who}`;

/**
 * ask shows a dialog, calls act when it is confirmed, and shows the result. The optional function
 * ready fills in the fields first; if it fails, the dialog shows the error.
 */
function ask({ title, fields, confirm, act, ready, done }) {
	const told = element("p", { className: "problem attention", hidden: true });
	told.setAttribute("role", "alert");
	const heading = element("h2", { id: "asked", textContent: title });
	const yes = element("button", { className: "main", textContent: confirm }), no = element("button", { type: "button", textContent: "Cancel" });
	const form = element("form", { method: "dialog" }, heading, ...fields, told, element("div", { className: "buttons" }, no, yes));
	const dialog = element("dialog", {}, form);
	dialog.setAttribute("aria-labelledby", heading.id);
	const refuse = (problem) => {
		told.textContent = problem.message;
		told.hidden = false;
	};
	no.addEventListener("click", () => dialog.close());
	dialog.addEventListener("close", () => dialog.remove());
	form.addEventListener("submit", async (event) => {
		event.preventDefault();
		yes.disabled = true;
		told.hidden = true;
		try {
			const text = await act(Object.fromEntries(new FormData(form)));
			const outcome = element("p");
			outcome.setAttribute("role", "status");
			heading.textContent = "Done";
			form.replaceChildren(heading, outcome, element("div", { className: "buttons" }, no));
			outcome.textContent = text;
			no.textContent = "Close";
			no.focus();
			done();
		} catch (problem) {
			refuse(problem);
			yes.disabled = false;
		}
	});
	document.body.append(dialog);
	dialog.showModal();
	if (ready) {
		yes.disabled = true;
		ready().then(() => { yes.disabled = false; }, refuse);
	}
}

function choice(label, name, options) {
	const select = element("select", { name });
	for (const [value, text] of options) select.add(new Option(text, value));
	return element("label", {}, label, select);
}

const input = (label, properties) => element("label", {}, label, element("input", properties));
const directions = [["both", "up and down"], ["down", "down only"], ["up", "up only"]];
const other = "other";
const lengths = [["30m", "for 30 minutes"], ["2h", "for 2 hours"], ["8h", "for 8 hours"], ["24h", "for a day"], [other, "until a time…"], ["", "until resumed"]];

/** end returns the fields for the duration of a pause. */
function end() {
	const until = input("Until (in the browser's time zone)", { type: "datetime-local", name: "until", hidden: true }), field = until.lastChild;
	const select = choice("Duration", "for", lengths);
	until.hidden = true;
	field.hidden = false;
	select.addEventListener("change", () => {
		until.hidden = select.lastChild.value !== other;
		field.required = !until.hidden;
		if (!until.hidden) field.focus();
	});
	return [select, until];
}

/** duration returns the duration of a pause from its fields. */
function duration({ for: length, until }) {
	if (length !== other) return length;
	const seconds = Math.round((new Date(until).getTime() - Date.now()) / 1000);
	if (!(seconds > 0)) throw new Error("The end must be in the future.");
	return `${seconds}s`;
}

/** offer adds buttons to an element, for one autoscaler, or without a name for all autoscalers. */
export function offer(place, { name }, done) {
	const path = name ? `api/v1/autoscalers/${encodeURIComponent(name)}` : "api/v1", what = name ? `“${name}”` : "all autoscalers";
	const add = (text, about) => {
		const button = element("button", { type: "button", textContent: `${text}…` });
		button.addEventListener("click", () => ask({ done, confirm: text, ...about() }));
		place.append(button);
	};

	add(name ? "Pause" : "Pause all", () => ({
		title: `Pause ${what}`, confirm: "Pause",
		fields: [choice("Paused changes", "direction", directions), ...end(), input("Reason (visible to everyone)", { name: "reason", autocomplete: "off", maxLength: 200 })],
		act: async (given) => {
			const pause = await data(`${path}/pause`, { direction: given.direction, for: duration(given), reason: given.reason });
			return pause ? `Now ${pause.message}. Paused ${stamp()}.` : "The pause has already ended.";
		},
	}));

	add(name ? "Resume" : "Resume all", () => {
		const said = element("p", { textContent: "…" });
		return {
			title: `Resume ${what}`, confirm: "Resume", fields: [said],
			ready: async () => {
				const inForce = await data("api/v1/pauses"), own = inForce.filter((pause) => (name ? pause.autoscaler === name : !pause.autoscaler && !pause.fleet));
				said.textContent = own.map((pause) => `This ends the pause: ${pause.message}.`).join(" ");
				if (!own.length) throw new Error(name ? "This autoscaler has no pause of its own. Resume its fleet or all autoscalers instead." : "No pause applies to all autoscalers. Resume the fleet or the autoscaler instead.");
			},
			act: async () => `Resumed ${stamp()}. It was ${(await data(`${path}/resume`, {})).message}.`,
		};
	});

	if (!name) {
		add("Reload", () => {
			const list = element("pre", { textContent: "reading the configuration…", tabIndex: 0 });
			return {
				title: "Reload the configuration", fields: [element("p", { textContent: "This would change:" }), list],
				ready: async () => {
					try {
						const { changes } = await data("api/v1/status/reload");
						list.textContent = changes.map(line).join("\n") || "nothing";
					} catch (problem) {
						list.textContent = problem.message;
						throw new Error("The reload would be rejected: the current configuration stays active.");
					}
				},
				act: async () => {
					const { changes } = await data("-/reload", {});
					return `Reloaded ${stamp()}, with ${changes.length === 1 ? "1 change" : `${changes.length} changes`}.`;
				},
			};
		});
		return;
	}

	add("Scale once", () => {
		const { count, min, max } = document.getElementById("count").dataset;
		return {
			title: `Set the count of ${what} once`, confirm: "Scale",
			fields: [
				element("p", { textContent: `The count is ${count} now. The metrics decide again in the next pass; pause the autoscaler to keep the count.` }),
				input(`Replicas, from ${min} to ${max}`, { name: "replicas", type: "number", min: 0, step: 1, value: count, required: true }),
				element("label", { className: "check" }, element("input", { type: "checkbox", name: "force" }), "allow a count outside the bounds"),
			],
			act: async (given) => {
				await data(`${path}/scale`, { replicas: Number(given.replicas), force: given.force === "on" });
				return `The count was set to ${given.replicas} ${stamp()}.`;
			},
		};
	});

	add("Evaluate now", () => ({
		title: `Evaluate ${what} now`, confirm: "Evaluate", fields: [element("p", { textContent: "This starts an additional pass, which may change the count." })],
		act: async () => {
			const view = await data(`${path}/evaluate`, {});
			return `Evaluated ${stamp()}: the result is ${view.evaluation.reason || "unknown"}, and the count is ${view.status.current_replicas}.`;
		},
	}));
}

/** line formats a change of the configuration in the same way as the command line. */
function line({ key, before = "", after = "", kind, next_start: later, note }) {
	let text = { added: "+ ", removed: "- ", changed: "~ " }[kind] + key;
	if (before && after) text += before === after ? ": another value" : `: ${before} → ${after}`;
	else if (before || after) text += `: ${before}${after}`;
	else if (kind === "changed") text += ": another value";
	return text + (later ? " (at the next start)" : "") + (note ? `: ${note}` : "");
}
