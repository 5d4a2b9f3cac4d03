// The graph of one autoscaler: its count between min and max, the proposals of its metrics, the
// window that holds the count, and marks for events.
import { base, clock, data, element, fetched, now } from "./common.js";

const box = document.getElementById("drawing"), spans = document.getElementById("spans"), unzoom = document.getElementById("unzoom");
const key = document.getElementById("key"), reading = document.getElementById("reading"), warned = document.getElementById("drawing-warnings");
const table = document.querySelector("#drawing-table tbody"), tableShown = document.getElementById("drawing-table").closest("details");
const hour = 3600, day = 24 * hour, height = 300;

// For times more than 6 hours ago, the server stores one point per 5 minutes.
const full = 6 * hour;
const period = Math.max(15, Number(document.body.dataset.period) || 0), thin = 300;

const colours = () => {
	const style = getComputedStyle(document.documentElement), dark = matchMedia("(prefers-color-scheme: dark)").matches;
	const of = (name) => style.getPropertyValue(name).trim();
	return {
		text: of("--muted"), edge: of("--edge"), count: of("--accent"), bad: of("--bad"), held: of("--held"), back: of("--card"),
		proposals: dark ? ["#5fd0a5", "#e39ad1", "#d8c15a", "#8fc7e8", "#e8a17a"] : ["#08744d", "#a83a8f", "#756200", "#12698f", "#a34c14"],
	};
};

// The shapes of the marks, 12 units wide around the origin, and their meanings.
const shapes = {
	up: "M-5 4.5H5L0-5Z", down: "M-5-4.5H5L0 5Z", person: "M-4.5 0a4.5 4.5 0 1 0 9 0a4.5 4.5 0 1 0-9 0Z", foreign: "M0-6L6 0L0 6L-6 0Z",
	bounds: "M-4-4H4V4H-4Z", pause: "M-4.5-5h3V5h-3ZM1.5-5h3V5h-3Z", failed: "M-5-3L-3-5L0-2L3-5L5-3L2 0L5 3L3 5L0 2L-3 5L-5 3L-2 0Z",
	config: "M-4-5H2L5-2V5H-4Z",
};
const meanings = {
	up: "scaled up", down: "scaled down", person: "set by a user", foreign: "changed externally", bounds: "min or max changed", pause: "pause",
	failed: "failed", config: "configuration changed",
};
const colourOf = (kind, c) => ({ up: c.count, down: c.count, person: c.held, pause: c.held, bounds: c.text, config: c.text })[kind] ?? c.bad;

const columnsOf = (graph) => [graph.replicas, graph.desired_replicas, graph.min_replicas, graph.max_replicas];

/** joined appends the points of a second graph to a graph and removes the points before from. */
function joined(graph, after, from) {
	const names = [...new Set([...graph.metrics, ...after.metrics].map((metric) => metric.name))];
	const first = graph.time.findIndex((time) => time >= from), cut = first < 0 ? graph.time.length : first;
	const last = graph.time.at(-1) ?? 0, next = after.time.findIndex((time) => time > last), begin = next < 0 ? after.time.length : next;
	const both = (a, b) => [...(a?.slice(cut) ?? Array(graph.time.length - cut).fill(null)), ...(b?.slice(begin) ?? Array(after.time.length - begin).fill(null))];
	const one = { time: both(graph.time, after.time) };
	for (const name of ["replicas", "desired_replicas", "min_replicas", "max_replicas"]) one[name] = both(graph[name], after[name]);
	one.metrics = names.map((name) => {
		const [a, b] = [graph, after].map((of) => of.metrics.find((metric) => metric.name === name));
		return { name, proposals: both(a?.proposals, b?.proposals), values: both(a?.values, b?.values) };
	});
	return one;
}

/**
 * lines returns the columns for uPlot and the holes: the spans of time without points. It inserts the
 * counts of marks between the points of the graph, and ends with the current count.
 */
function lines(graph, marks, live) {
	const width = 4 + 2 * graph.metrics.length, sources = [...columnsOf(graph), ...graph.metrics.flatMap((metric) => [metric.proposals, metric.values])];
	const out = [[], ...Array.from({ length: width }, () => [])];
	const put = (time, values) => {
		out[0].push(time);
		values.forEach((value, i) => out[i + 1].push(value));
	};
	const counted = marks.filter((mark) => mark.count !== undefined);
	const holes = [];
	let next = 0, last = 0, held = null;
	const changes = (before) => {
		for (; next < counted.length && counted[next].time < before; next++) {
			if (held && counted[next].time > last) {
				held = [counted[next].count, ...held.slice(1)];
				put(last = counted[next].time, held);
			}
		}
	};
	const end = now();
	graph.time.forEach((time, i) => {
		changes(time);
		const step = end - time > full ? Math.max(thin, period) : period;
		if (held && time - last > 3 * step + 30) {
			holes.push([last, time]);
			put(last + step, Array(width).fill(null));
		}
		held = sources.map((source) => source[i]);
		put(last = time, held);
	});
	changes(Infinity);
	if (held && end - last > 3 * period + 30) holes.push([last, end]);
	else if (held && end > last) put(end, [live.count, held[1], live.min, live.max, ...held.slice(4)]);
	return [out, holes];
}

/** draw draws the graph and describes the point under the cursor. It calls pick with the time of a click. */
export function draw(name, here, pick) {
	for (const one of [box, key, reading]) one.hidden = false;
	const one = encodeURIComponent(name), live = document.getElementById("count").dataset;
	let hours = Number(sessionStorage.getItem("hours")) || 1, zoom = null;
	let graph, marks = [], shown = [[]], holes = [], plot, drawnAs = "", problem = "", incomplete = false;
	let pinned = {}, pointed = null;

	// The visible time span. It omits the time before the first point.
	function span() {
		if (zoom) return zoom;
		const to = now(), from = to - hours * hour, first = graph?.time[0] ?? from;
		if (first > from + (to - from) / 10) return [Math.min(first - (to - first) / 50, to - 120), to];
		return [from, to];
	}

	function high() {
		const [from, to] = span();
		let count = 1, proposed = 0, limit = 0;
		shown[0].forEach((time, i) => {
			if (time < from || time > to) return;
			count = Math.max(count, shown[1][i] ?? 0, shown[2][i] ?? 0, shown[3][i] ?? 0);
			limit = Math.max(limit, shown[4][i] ?? 0);
			for (let m = 5; m < shown.length; m += 2) proposed = Math.max(proposed, shown[m][i] ?? 0);
		});
		// A much larger max or proposal would flatten the line of the count.
		const most = limit <= 4 * count ? Math.max(count, limit) : count;
		return 1.12 * Math.max(most, Math.min(proposed, 1.6 * most));
	}

	// A graph without the points of a member is read as a whole again. Points in holes do not appear later.
	let missing = [];
	function warn(texts) {
		missing = texts.filter((text) => !text.startsWith("no data points"));
		incomplete = missing.length > 0;
	}

	function showWarnings() {
		const [from, to] = span(), inView = holes.filter(([begin, end]) => end > from && begin < to);
		const texts = inView.length > 1 ? [`no data in ${inView.length} periods`] : inView.map(([begin, end]) => `no data from ${clock(begin)} to ${clock(end)}`);
		warned.replaceChildren(...[...missing, ...texts].map((text) => element("p", { className: "problem attention" }, `The graph is incomplete: ${text}`)));
	}

	let loading = false, again = false;
	async function load(whole) {
		if (loading) {
			again ||= whole;
			return;
		}
		loading = true;
		const to = now(), from = to - hours * hour, since = whole || incomplete || !graph?.time.length ? from : Math.max(from, graph.time.at(-1) + 1);
		try {
			const [points, happened] = await Promise.all([
				data(`api/v1/autoscalers/${one}/graph?from=${since}&to=${to + 60}`, undefined, warn),
				fetch(`${base}marks?name=${one}&from=${since}`, { cache: "no-store" }).then((response) => (response.ok ? response.json() : [])),
			]);
			graph = since === from ? points : joined(graph, points, from);
			marks = [...marks.filter((mark) => since !== from && mark.time < since && mark.time >= from), ...happened];
			problem = "";
			if (plot?.cursor.left >= 0 && !whole) return; // do not move the graph below the cursor
			show();
		} catch (failure) {
			problem = `The graph cannot be loaded: ${failure.message}`;
			if (!graph) read();
		} finally {
			loading = false;
			if (again) {
				again = false;
				load(true);
			}
		}
	}

	// The holes, and the window of the decision under the cursor, otherwise of the decision that is explained above,
	// and the recommendation that holds the count.
	function shade(u) {
		const c = colours(), ctx = u.ctx, { left, top, width, height } = u.bbox;
		const x = (time) => Math.min(Math.max(u.valToPos(time, "x", true), left), left + width);
		const of = pointed?.why ?? pinned, end = pointed?.why ? pointed.time : of.past === "true" ? Number(of.at) : now();
		const begin = end - (Number(of.window) || 0), binding = Number(of.binding) || 0;
		ctx.save();
		ctx.fillStyle = ctx.strokeStyle = c.held;
		ctx.globalAlpha = 0.14;
		ctx.fillRect(x(begin), top, x(end) - x(begin), height);
		ctx.fillStyle = c.bad;
		for (const [from, to] of holes) ctx.fillRect(x(from), top, x(to) - x(from), height);
		ctx.fillStyle = c.held;
		ctx.globalAlpha = 1;
		ctx.lineWidth = 1.5 * devicePixelRatio;
		if (of.past === "true" && !pointed?.why && end > u.scales.x.min) {
			ctx.beginPath();
			ctx.moveTo(x(end), top);
			ctx.lineTo(x(end), top + height);
			ctx.stroke();
		}
		if (binding >= begin - 1 && binding > u.scales.x.min && binding < u.scales.x.max) {
			const y = u.valToPos(Number(of.bindingCount), "y", true);
			ctx.setLineDash([4 * devicePixelRatio, 3 * devicePixelRatio]);
			ctx.beginPath();
			ctx.moveTo(x(binding), y);
			ctx.lineTo(x(end), y);
			ctx.stroke();
			ctx.beginPath();
			ctx.arc(x(binding), y, 4.5 * devicePixelRatio, 0, 2 * Math.PI);
			ctx.fill();
		}
		ctx.restore();
	}

	// The marks have their own row above the lines.
	function mark(u) {
		const c = colours(), ctx = u.ctx, { left, top, width, height } = u.bbox, last = {};
		for (const mark of marks) {
			const x = u.valToPos(mark.time, "x", true);
			if (x < left || x > left + width || x - last[mark.kind] < 3 * devicePixelRatio) continue;
			last[mark.kind] = x;
			ctx.save();
			ctx.fillStyle = ctx.strokeStyle = colourOf(mark.kind, c);
			if (mark.kind !== "up" && mark.kind !== "down") {
				ctx.globalAlpha = 0.45;
				ctx.beginPath();
				ctx.moveTo(x, top);
				ctx.lineTo(x, top + height);
				ctx.stroke();
				ctx.globalAlpha = 1;
			}
			ctx.translate(x, top - 9 * devicePixelRatio);
			ctx.scale(devicePixelRatio, devicePixelRatio);
			ctx.fill(new Path2D(shapes[mark.kind]));
			ctx.restore();
		}
	}

	// The labels of the time axis: days, minutes or seconds, depending on the step.
	function times(u, splits, axis, space, step) {
		let before = "";
		return splits.map((time) => {
			const [date, text] = clock(time).split(" ");
			const first = date !== before;
			before = date;
			if (step >= day) return date.slice(5);
			return text.slice(0, step < 60 ? 8 : 5) + (first ? `\n${date}` : "");
		});
	}

	function begin(c) {
		const stepped = uPlot.paths.stepped({ align: 1 });
		const line = (stroke, width, more = {}) => ({ stroke, width, paths: stepped, points: { show: false }, spanGaps: false, ...more });
		const none = { show: false }, bound = line(c.text, 1, { dash: [2, 4] });
		const series = [{}, line(c.count, 2.5, { fill: `${c.count}14` }), none, bound, { ...bound }];
		graph.metrics.forEach((_, i) => series.push(line(c.proposals[i % c.proposals.length], 1.25), { show: false, scale: "value" }));
		const axis = { stroke: c.text, grid: { stroke: c.edge, width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
		plot?.destroy();
		plot = new uPlot({
			width: box.clientWidth, height, padding: [20, 8, 0, 0], legend: { show: false }, series,
			tzDate: (time) => uPlot.tzDate(new Date(time * 1000), document.body.dataset.zone),
			scales: { x: { time: true, range: () => span() }, y: { range: () => [0, high()] }, value: { auto: false, range: () => [0, 1] } },
			axes: [{ ...axis, values: times, size: 46 }, { ...axis, size: 40, incrs: [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000, 10000, 20000, 50000, 100000] }],
			cursor: { y: false, dataIdx: before, points: { size: (_, i) => (i === 1 ? 8 : i > 4 ? 6 : 0) }, drag: { x: true, y: false, setScale: false, dist: 6 }, bind: { dblclick: () => null } },
			hooks: { drawClear: [shade], draw: [mark], setCursor: [() => read()], setSelect: [select] },
		}, shown, box);
		let down = 0;
		plot.over.addEventListener("mousedown", (event) => { down = event.clientX; });
		plot.over.addEventListener("click", (event) => {
			if (Math.abs(event.clientX - down) < 6 && plot.cursor.left >= 0) choose();
		});
		plot.over.addEventListener("dblclick", () => zoomTo(null));
	}

	// A count applies until the next point, so the previous point is shown instead of the nearest.
	const before = (u, series, nearest, time) => {
		while (nearest > 0 && shown[0][nearest] > time) nearest--;
		return nearest;
	};

	function show() {
		[shown, holes] = lines(graph, marks, { count: Number(live.count), min: Number(live.min), max: Number(live.max) });
		const c = colours(), as = JSON.stringify([c, graph.metrics.map((metric) => metric.name)]);
		if (as === drawnAs) {
			plot.setData(shown);
		} else {
			drawnAs = as;
			begin(c);
		}
		for (const button of spans.querySelectorAll("[data-hours]")) button.setAttribute("aria-pressed", Number(button.dataset.hours) === hours);
		unzoom.disabled = !zoom;
		showWarnings();
		updateLegend(c);
		read();
	}

	function select(u) {
		if (u.select.width < 6) return;
		const ends = [u.select.left, u.select.left + u.select.width].map((x) => u.posToVal(x, "x"));
		u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
		zoomTo(ends);
	}

	function zoomTo(ends) {
		const shortest = 30;
		if (ends && ends[1] - ends[0] < shortest) ends = [(ends[0] + ends[1] - shortest) / 2, (ends[0] + ends[1] + shortest) / 2];
		zoom = ends;
		unzoom.disabled = !zoom;
		if (!plot) return;
		const [min, max] = span();
		plot.setScale("x", { min, max });
	}

	function choose() {
		const time = plot.posToVal(plot.cursor.left, "x");
		pick(isLatest(time) ? "" : String(Math.round(time * 10) / 10));
	}

	// The right end is the present, unless the graph is zoomed.
	const isLatest = (time) => !zoom && plot.valToPos(time, "x") >= plot.over.clientWidth - 2;

	// The legend names the lines, with their values under the cursor, otherwise the last values.
	let values = [];
	function updateLegend(c) {
		const sample = (d, attributes) => {
			const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg"), path = document.createElementNS(svg.namespaceURI, "path");
			for (const [name, value] of Object.entries({ viewBox: "-9 -7 18 14", width: 18, height: 14, "aria-hidden": "true" })) svg.setAttribute(name, value);
			for (const [name, value] of Object.entries({ d, fill: "none", ...attributes })) path.setAttribute(name, value);
			svg.append(path);
			return svg;
		};
		const line = (text, stroke, more) => {
			const value = element("b");
			values.push(value);
			return element("li", {}, sample("M-9 0H9", { stroke, "stroke-width": 1.5, ...more }), `${text} `, value);
		};
		values = [];
		const items = [line("count", c.count, { "stroke-width": 3 }), line("min and max", c.text, { "stroke-dasharray": "2 4" })];
		graph.metrics.forEach((metric, i) => items.push(line(`${metric.name} proposes`, c.proposals[i % c.proposals.length])));
		const [from, to] = span(), kinds = new Set(marks.filter((mark) => mark.time >= from && mark.time <= to).map((mark) => mark.kind));
		if (Number(pinned.window) > 0) items.push(element("li", {}, sample("M-9-6H9V6H-9Z", { fill: c.held, opacity: 0.3 }), `stabilization window, ${length(pinned.window)}`));
		if (holes.some(([begin, end]) => end > from && begin < to)) items.push(element("li", {}, sample("M-9-6H9V6H-9Z", { fill: c.bad, opacity: 0.3 }), "no data"));
		for (const kind of Object.keys(shapes)) if (kinds.has(kind)) items.push(element("li", {}, sample(shapes[kind], { fill: colourOf(kind, c) }), meanings[kind]));
		key.replaceChildren(...items);
		if (tableShown.open) tabulate();
	}

	// The values and the decision under the cursor.
	function read() {
		if (!graph) {
			reading.textContent = problem;
			return;
		}
		const at = plot.cursor.left >= 0 ? plot.cursor.idxs[1] : null, i = at ?? shown[0].length - 1;
		const beforeAll = at !== null && shown[0][i] > plot.posToVal(plot.cursor.left, "x");
		const text = (column) => (beforeAll ? null : column?.[i]) ?? "–";
		[text(shown[1]), `${text(shown[3])} – ${text(shown[4])}`].forEach((value, n) => { values[n].textContent = value; });
		graph.metrics.forEach((_, m) => {
			const value = beforeAll ? null : shown[6 + 2 * m][i];
			values[2 + m].textContent = text(shown[5 + 2 * m]) + (typeof value === "number" ? ` at ${Number(value.toPrecision(4))}` : "");
		});
		if (at === null) {
			pointed = null;
			asked++;
			const known = graph.time.length ? graph.time[0] > now() - hours * hour * 0.9 ? ` There is no data before ${clock(graph.time[0])}.` : "" : "No data points at this time.";
			reading.replaceChildren(element("span", { className: "muted" }, `Point at the graph, or use the arrow keys, to see the decision at that time. Click to pin it; drag to zoom.${known}`));
			return;
		}
		explain(plot.posToVal(plot.cursor.left, "x"));
	}

	const explained = new Map();
	let asked = 0;
	async function explain(time) {
		const mine = ++asked, pixel = plot.posToVal(6, "x") - plot.posToVal(0, "x"), latest = isLatest(time);
		const at = latest ? now() : Math.round(time * 10) / 10;
		const near = marks.filter((mark) => Math.abs(mark.time - time) <= pixel).slice(0, 4).map((mark) => `${meanings[mark.kind]}: ${mark.text}`);
		const hole = holes.find(([from, to]) => time > from && time < to);
		if (hole) near.unshift(`no data from ${clock(hole[0])} to ${clock(hole[1])}`);
		const say = (text) => {
			reading.replaceChildren(element("b", { textContent: clock(at) }), near.length ? ` · ${near.join(" · ")}` : "", element("br"), text);
			box.setAttribute("aria-valuemin", Math.round(plot.scales.x.min));
			box.setAttribute("aria-valuemax", Math.round(plot.scales.x.max));
			box.setAttribute("aria-valuenow", Math.round(at));
			box.setAttribute("aria-valuetext", `${clock(at)}, count ${values[0].textContent}. ${near.join(". ")} ${text}`);
		};
		if (!explained.has(at)) {
			say("…");
			await new Promise((wake) => setTimeout(wake, 120));
			if (mine !== asked) return;
			try {
				const part = await fetched(`${here}?part=why${latest ? "" : `&at=${at}`}`), why = part.getElementById("why");
				explained.set(at, { ...why.dataset, text: (why.querySelector(".sentence") ?? why.querySelector(".problem > span")).textContent });
				if (explained.size > 500) explained.delete(explained.keys().next().value);
			} catch {
				if (mine === asked) say("hpad does not respond.");
				return;
			}
			if (mine !== asked) return;
		}
		const why = explained.get(at);
		say(why.text);
		pointed = { time: at, why };
		plot.redraw(false);
	}

	// The same data as a table, for screen readers.
	function tabulate() {
		const [from, to] = span(), inView = [];
		shown[0].forEach((time, i) => {
			if (time >= from && time <= to && shown[1][i] !== null) inView.push(i);
		});
		const most = 24, every = Math.max(1, Math.ceil(inView.length / most));
		const lines = inView.reverse().filter((_, n) => n % every === 0).map((i) => {
			const when = new Date(shown[0][i] * 1000), cells = [["", element("time", { dateTime: when.toISOString(), title: `${clock(shown[0][i], "UTC")} UTC` }, clock(shown[0][i]))]];
			["count", "desired", "min", "max"].forEach((label, n) => cells.push([label, String(shown[n + 1][i] ?? "–")]));
			cells.push(["", graph.metrics.map((metric, m) => `${metric.name}: ${shown[5 + 2 * m][i] ?? "–"}`).join(", ")]);
			return element("tr", {}, ...cells.map(([label, cell]) => {
				const td = element("td", {}, cell);
				if (label) td.dataset.label = label;
				return td;
			}));
		});
		if (lines.length) table.replaceChildren(...lines);
	}
	tableShown.addEventListener("toggle", () => tableShown.open && graph && tabulate());

	// With the keyboard, the graph works like a slider.
	for (const [name, value] of Object.entries({ tabindex: "0", role: "slider", "aria-label": "Graph of the count over time", "aria-valuenow": "0", "aria-valuetext": "now" })) box.setAttribute(name, value);
	box.addEventListener("keydown", (event) => {
		if (!plot || event.ctrlKey || event.metaKey || event.altKey) return;
		const [from, to] = span(), width = plot.over.clientWidth, at = plot.cursor.left >= 0 ? plot.cursor.left : width - 1;
		const move = (left) => plot.setCursor({ left: Math.min(Math.max(left, 0), width - 1), top: 0 });
		const step = event.shiftKey ? width / 10 : Math.max(1, width / 200), time = plot.posToVal(at, "x");
		const acts = {
			ArrowLeft: () => move(at - step), ArrowRight: () => move(at + step), Home: () => move(0), End: () => move(width - 1), Enter: choose,
			"+": () => zoomTo([time - (time - from) / 2, time + (to - time) / 2]), "-": () => zoomTo(null),
			Escape: () => (zoom ? zoomTo(null) : leave()),
		};
		if (!acts[event.key]) return;
		event.preventDefault();
		acts[event.key]();
	});
	const leave = () => plot?.setCursor({ left: -10, top: -10 });
	box.addEventListener("blur", leave);

	for (const button of spans.querySelectorAll("[data-hours]")) {
		button.addEventListener("click", () => {
			hours = Number(button.dataset.hours);
			sessionStorage.setItem("hours", hours);
			zoom = null;
			load(true);
		});
	}
	unzoom.addEventListener("click", () => zoomTo(null));
	new ResizeObserver(() => plot?.setSize({ width: box.clientWidth, height })).observe(box);
	matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => graph && show());

	// A short time span is refreshed more often.
	let refreshed = Date.now() / 1000;
	const refresh = () => {
		const [from, to] = span(), every = Math.min(Math.max((to - from) / 100, 2), 15);
		if (document.hidden || Date.now() / 1000 - refreshed < every) return;
		refreshed = Date.now() / 1000;
		load(false);
	};
	setInterval(refresh, 1000);
	load(true);
	return {
		/** windowIs sets the window that holds the count, from the data attributes of the explanation. */
		windowIs(dataset) {
			pinned = { ...dataset };
			plot?.redraw(false);
		},
	};
}

/** length formats a duration in seconds. */
function length(seconds) {
	const s = Math.round(Number(seconds));
	return s < 120 ? `${s} s` : s < 7200 ? `${Math.round(s / 60)} min` : `${Math.round(s / 3600)} h`;
}
