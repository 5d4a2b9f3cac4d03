// The drawing of one autoscaler: its count between min and max, what each metric proposes,
// the window that holds it, and marks for what people and others did.
import { base, data, element, fetched } from "./common.js";

const box = document.getElementById("drawing"), spans = document.getElementById("spans"), rows = document.querySelector("#drawing-table tbody");
const hour = 3600, refreshEvery = 15_000, explainAfter = 180;

const colours = () => {
	const style = getComputedStyle(document.documentElement), dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const of = (name) => style.getPropertyValue(name).trim();
	return {
		text: of("--muted"), edge: of("--edge"), count: of("--accent"), bad: of("--bad"), held: of("--held"), back: of("--card"),
		proposals: dark ? ["#5fd0a5", "#e39ad1", "#d8c15a", "#8fc7e8", "#e8a17a"] : ["#08744d", "#a83a8f", "#756200", "#12698f", "#a34c14"],
	};
};

/** marksOf makes marks of entries of the history: their time, a sign and what happened. */
function marksOf(entries) {
	const marks = [];
	for (const entry of entries) {
		const time = Date.parse(entry.time) / 1000, decision = entry.decision ?? {};
		if (decision.foreign) marks.push({ time, kind: "foreign", sign: "◆", text: `somebody else changed the count from ${decision.foreign.from}` });
		if (decision.command) marks.push({ time, kind: "person", sign: "●", text: `${decision.command.author || "a person"} set ${decision.command.replicas}` });
		for (const event of entry.events ?? []) {
			if (event.reason === "BoundsChanged") marks.push({ time, kind: "bounds", sign: "■", text: event.message });
			else if (/^(Paused|Resumed|PauseEnded|Breaker)/.test(event.reason)) marks.push({ time, kind: "pause", sign: "❙❙", text: event.message });
		}
		if (entry.written !== undefined && !decision.command) marks.push({ time, kind: "scaled", sign: decision.current_replicas < entry.written ? "▲" : "▼", text: `${decision.current_replicas} → ${entry.written}` });
	}
	return marks;
}

const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "medium" });

/** draw draws, and explains what is pointed at; pick is called with the time of a click. */
export function draw(name, here, pick) {
	const legend = element("p", { className: "legend" }), aside = element("p", { className: "legend", ariaLive: "off" });
	box.after(legend, aside);
	box.hidden = false;
	let hours = Number(sessionStorage.getItem("hours")) || 1, plot, graph, marks = [], window_ = {}, zoomed = false, explaining;

	for (const button of spans.children) {
		button.addEventListener("click", () => {
			hours = Number(button.dataset.hours);
			sessionStorage.setItem("hours", hours);
			zoomed = false;
			load();
		});
	}

	async function load() {
		for (const button of spans.children) button.setAttribute("aria-pressed", Number(button.dataset.hours) === hours);
		const to = Date.now() / 1000, from = to - hours * hour, one = `api/v1/autoscalers/${encodeURIComponent(name)}`;
		try {
			const [points, entries] = await Promise.all([
				data(`${one}/graph?from=${from}&to=${to}`), data(`${one}/history?changes=true&limit=500&from=${from}&to=${to}`),
			]);
			graph = points;
			marks = marksOf(entries);
			show(from, to);
		} catch (problem) {
			legend.textContent = `Nothing can be drawn: ${problem.message}`;
		}
	}

	// The window and the recommendation that holds the count, as far as they are in view.
	function shade(u) {
		const c = colours(), ctx = u.ctx, { left, top, width, height } = u.bbox;
		const x = (time) => Math.min(Math.max(u.valToPos(time, "x", true), left), left + width);
		const now = Date.now() / 1000, length = Number(window_.window) || 0;
		ctx.save();
		if (length > 0) {
			ctx.globalAlpha = 0.13;
			ctx.fillStyle = c.held;
			ctx.fillRect(x(now - length), top, x(now) - x(now - length), height);
			ctx.globalAlpha = 1;
		}
		const binding = Number(window_.binding) || 0;
		if (binding > 0 && binding >= u.scales.x.min && binding <= u.scales.x.max) {
			const y = u.valToPos(Number(window_.bindingCount), "y", true);
			ctx.strokeStyle = ctx.fillStyle = c.held;
			ctx.lineWidth = 1.5 * devicePixelRatio;
			ctx.setLineDash([4, 4]);
			ctx.beginPath();
			ctx.moveTo(x(binding), y);
			ctx.lineTo(x(now), y);
			ctx.stroke();
			ctx.beginPath();
			ctx.arc(x(binding), y, 4 * devicePixelRatio, 0, 2 * Math.PI);
			ctx.fill();
		}
		ctx.restore();
	}

	function mark(u) {
		const c = colours(), ctx = u.ctx, { left, top, width, height } = u.bbox;
		const colour = { foreign: c.bad, person: c.bad, pause: c.held, bounds: c.text, scaled: c.count };
		ctx.save();
		ctx.font = `${11 * devicePixelRatio}px system-ui, sans-serif`;
		ctx.textAlign = "center";
		for (const one of marks) {
			const x = u.valToPos(one.time, "x", true);
			if (x < left || x > left + width) continue;
			ctx.fillStyle = ctx.strokeStyle = colour[one.kind];
			if (one.kind !== "scaled") {
				ctx.globalAlpha = 0.5;
				ctx.beginPath();
				ctx.moveTo(x, top + 14 * devicePixelRatio);
				ctx.lineTo(x, top + height);
				ctx.stroke();
				ctx.globalAlpha = 1;
			}
			ctx.fillText(one.sign, x, top + 11 * devicePixelRatio);
		}
		ctx.restore();
	}

	function show(from, to) {
		if (zoomed) return;
		const c = colours(), stepped = uPlot.paths.stepped({ align: 1 });
		const line = (label, stroke, width, more = {}) => ({ label, stroke, width, paths: stepped, points: { show: false }, ...more });
		const series = [{}, line("max", c.text, 1, { dash: [2, 4] }), line("min", c.text, 1, { dash: [2, 4] })];
		const columns = [graph.time, graph.max_replicas, graph.min_replicas];
		graph.metrics.forEach((metric, i) => {
			series.push(line(`${metric.name} proposes`, c.proposals[i % c.proposals.length], 1));
			columns.push(metric.proposals);
		});
		series.push(line("count", c.count, 2.5));
		columns.push(graph.replicas);
		plot?.destroy();
		const known = [...graph.replicas, ...graph.metrics.flatMap((metric) => metric.proposals)].filter((n) => n !== null);
		const most = known.reduce((a, b) => Math.max(a, b), 1), limit = graph.max_replicas.findLast((n) => n !== null) ?? most;
		// A max that is far away would leave nothing to see of the count.
		const high = (limit <= 4 * most ? Math.max(most, limit) : most) * 1.12;
		const axis = { stroke: c.text, grid: { stroke: c.edge, width: 1 }, ticks: { stroke: c.edge, width: 1 }, font: "12px system-ui, sans-serif" };
		plot = new uPlot({
			width: box.clientWidth, height: 280, legend: { show: false }, series,
			scales: { x: { time: true, range: (u, least, most) => (zoomed ? [least, most] : [from, to]) }, y: { range: [0, high] } },
			axes: [axis, { ...axis, size: 44, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 50000, 100000] }],
			cursor: { y: false, drag: { x: true, y: false, setScale: true } },
			hooks: {
				drawClear: [shade], draw: [mark], setCursor: [point],
				setSelect: [(u) => { zoomed = u.select.width > 0; }],
			},
		}, columns, box);
		plot.over.addEventListener("dblclick", () => {
			zoomed = false;
			load();
		});
		plot.over.addEventListener("click", () => {
			const at = plot.cursor.left >= 0 ? plot.posToVal(plot.cursor.left, "x") : 0;
			if (at > 0 && !zoomed) pick(new Date(at * 1000).toISOString());
		});
		point(plot);
		tell();
	}

	// What is under the pointer, and that decision.
	function point(u) {
		const i = u.cursor.idx;
		const parts = [];
		if (i !== null && i !== undefined && u.cursor.left >= 0) {
			const at = graph.time[i];
			parts.push(clock.format(new Date(at * 1000)), element("span", {}, "count ", element("b", { textContent: graph.replicas[i] ?? "unknown" })));
			for (const metric of graph.metrics) {
				parts.push(element("span", {}, `${metric.name} proposes `, element("b", { textContent: metric.proposals[i] ?? "nothing" }), metric.values[i] === null ? "" : ` at ${Number(metric.values[i].toPrecision(4))}`));
			}
			const pixels = u.posToVal(8, "x") - u.posToVal(0, "x");
			for (const one of marks) if (Math.abs(one.time - at) < Math.max(pixels, 1)) parts.push(`${one.sign} ${one.text}`);
			explain(at);
		} else {
			clearTimeout(explaining);
			aside.textContent = "Point at an instant to see why; a click keeps it, dragging zooms, a double click shows all again.";
			const c = colours();
			const key = (text, colour) => {
				const sample = element("span", { textContent: text });
				sample.style.color = colour;
				return sample;
			};
			parts.push(key("━ count", c.count), ...(graph?.metrics ?? []).map((metric, n) => key(`─ ${metric.name} proposes`, c.proposals[n % c.proposals.length])), key("┄ min and max", c.text));
			if (Number(window_.window) > 0) parts.push(key("▒ stabilization window", c.held));
		}
		legend.replaceChildren(...parts);
	}

	function explain(at) {
		clearTimeout(explaining);
		explaining = setTimeout(async () => {
			try {
				const part = await fetched(`${here}?part=why&at=${at}`);
				aside.textContent = part.querySelector(".sentence")?.textContent ?? part.querySelector(".problem")?.textContent ?? "";
			} catch {
				aside.textContent = "";
			}
		}, explainAfter);
	}

	// The same as a table, for those who cannot see the drawing.
	function tell() {
		const most = 24, every = Math.max(1, Math.floor(graph.time.length / most)), lines = [];
		const text = (n) => (n === null || n === undefined ? "–" : String(n));
		for (let i = graph.time.length - 1; i >= 0; i -= every) {
			const when = new Date(graph.time[i] * 1000), time = element("time", { dateTime: when.toISOString(), title: when.toISOString() }, clock.format(when));
			const proposals = graph.metrics.map((metric) => `${metric.name}: ${text(metric.proposals[i])}`).join(", ");
			const cells = [time, text(graph.replicas[i]), text(graph.desired_replicas[i]), text(graph.min_replicas[i]), text(graph.max_replicas[i]), proposals];
			lines.push(element("tr", {}, ...cells.map((cell) => element("td", {}, cell))));
		}
		if (lines.length) rows.replaceChildren(...lines);
	}

	new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height: 280 })).observe(box);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", load);
	setInterval(() => !document.hidden && !zoomed && load(), refreshEvery);
	load();
	return {
		/** windowIs says which window holds the count, as data of the explanation. */
		windowIs(dataset) {
			window_ = { ...dataset };
			plot?.redraw(false);
		},
	};
}
