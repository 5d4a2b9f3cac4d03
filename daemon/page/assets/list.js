// The list: the script stores, filters and sorts all rows, and puts the visible ones into the
// document. With very many autoscalers the server filters, and the script shows one page.
import { address, base, fetched, follow, morph, zoneIsNew } from "./common.js";
import { offer } from "./acts.js";

const body = document.getElementById("rows"), table = document.getElementById("list"), form = document.getElementById("filter");
const shown = document.getElementById("shown"), total = document.getElementById("total"), notices = document.getElementById("notices");
const whole = document.body.dataset.whole === "true";
const states = ["attention", "held", "scaling", "steady"];

/** url returns the address of the list with the filter of the form. */
function url() {
	const query = new URLSearchParams();
	for (const [name, value] of new FormData(form)) {
		if (value && !(name === "sort" && value === "name")) query.set(name, value);
	}
	return base + (query.size ? `?${query}` : "");
}

form.addEventListener("submit", (event) => {
	event.preventDefault();
	choose();
});
form.addEventListener("input", () => choose());

// The last graphs in the column "Last hour", by autoscaler.
const lines = new Map();
const lineLasts = 60_000;
let asking;

function drawLines() {
	clearTimeout(asking);
	asking = setTimeout(async () => {
		const old = Date.now() - lineLasts;
		const wanted = [...body.querySelectorAll("tr[data-name]")].filter((tr) => {
			const { top, bottom } = tr.getBoundingClientRect();
			return bottom > 0 && top < innerHeight && !(lines.get(tr.dataset.name)?.at > old);
		}).map((tr) => tr.dataset.name).slice(0, 100);
		if (!wanted.length) return;
		const query = new URLSearchParams(wanted.map((name) => ["name", name]));
		try {
			const got = await (await fetch(`${base}lines?${query}`, { cache: "no-store" })).json();
			for (const name of wanted) lines.set(name, { at: Date.now(), counts: got[name] ?? [] });
		} catch {
			return; // follow reports a lost connection
		}
		for (const tr of body.querySelectorAll("tr[data-name]")) drawLine(tr);
	}, 120);
}

function drawLine(tr) {
	const svg = tr.querySelector(".spark"), counts = lines.get(tr.dataset.name)?.counts ?? [];
	const known = counts.filter((n) => n >= 0);
	if (!known.length) {
		svg.replaceChildren();
		svg.setAttribute("aria-label", "no data points in the last hour");
		return;
	}
	const most = Math.max(...known), least = Math.min(...known), high = Math.max(most, 1);
	let way = "", pen = false;
	counts.forEach((n, i) => {
		if (n < 0) {
			pen = false;
			return;
		}
		const x = (i * 120) / (counts.length - 1), y = 26 - (24 * n) / high;
		way += pen ? `H${x.toFixed(1)}V${y.toFixed(1)}` : `M${x.toFixed(1)} ${y.toFixed(1)}h.1`;
		pen = true;
	});
	const path = svg.firstChild ?? svg.appendChild(document.createElementNS("http://www.w3.org/2000/svg", "path"));
	path.setAttribute("d", way);
	svg.setAttribute("aria-label", least === most ? `${least} in the last hour` : `${least} to ${most} in the last hour`);
}

// Rows in the document.
const blank = document.getElementById("row").content.querySelector("tr");

function put(node, text) {
	if (node.textContent !== text) node.textContent = text;
	node.hidden = text === "";
}

function fill(tr, row) {
	const changed = tr.dataset.name === row.name && tr.row && tr.row.count !== row.count;
	if (tr.row === row) return;
	tr.row = row;
	tr.dataset.name = row.name;
	tr.className = row.state + (changed ? " fresh" : "");
	const [head, , count, targets, why] = tr.children;
	head.children[0].href = `autoscalers/${encodeURIComponent(row.name)}`;
	put(head.children[0], row.name);
	put(head.children[1], row.reference);
	put(count.children[0], row.replicas);
	put(count.children[1], row.count === row.desired ? "" : `→ ${row.desired}`);
	put(count.children[2], `${row.min} – ${row.max}`);
	put(count.children[3], row.late ? `late ${row.late}×` : "");
	put(targets, row.targets);
	targets.hidden = false;
	put(why.children[0], row.state);
	put(why.children[1], row.problem ?? "");
	why.title = row.problem ?? ""; // the row shows only one line of it
	put(why.children[2], row.why);
	drawLine(tr);
}

// All rows, and the rows that match the filter.
const rows = new Map();
let chosen = [], all = [];

const orders = {
	name: () => 0,
	replicas: (a, b) => b.count - a.count,
	state: (a, b) => states.indexOf(a.state) - states.indexOf(b.state),
	late: (a, b) => (b.late ?? 0) - (a.late ?? 0),
};

function choose() {
	address(where = url());
	if (!whole) {
		load();
		return;
	}
	performance.mark("choose");
	const text = form.q.value.toLowerCase(), fleet = form.fleet.value, state = form.state.value;
	chosen = all.filter((row) => (!state || row.state === state) && (!fleet || row.fleet === fleet) && (!text || row.text.includes(text)));
	const order = orders[form.sort.value] ?? orders.name;
	if (order !== orders.name) chosen.sort(order); // a stable sort
	render();
	performance.measure("choose", "choose");
}

// If there are more than mostRows rows, the document contains only the visible rows and a few rows
// around them.
const mostRows = 200, around = 12;
let rowHeight = 0;

function spacer(height) {
	const tr = document.createElement("tr");
	tr.className = "space";
	tr.setAttribute("aria-hidden", "true");
	tr.append(document.createElement("td"));
	tr.firstChild.colSpan = 5;
	tr.style.height = `${height}px`;
	return tr;
}

function render() {
	shown.textContent = chosen.length === all.length ? `${all.length} shown` : `${chosen.length} of ${all.length} shown`;
	let first = 0, last = chosen.length;
	if (chosen.length > mostRows) {
		rowHeight = body.querySelector("tr[data-name]")?.offsetHeight || rowHeight || 76;
		const top = body.getBoundingClientRect().top;
		first = Math.max(0, Math.min(chosen.length - 1, Math.floor(-top / rowHeight) - around));
		last = Math.min(chosen.length, first + Math.ceil(innerHeight / rowHeight) + 2 * around);
		table.setAttribute("aria-rowcount", chosen.length + 1);
	} else {
		table.removeAttribute("aria-rowcount");
	}
	const want = new Set(chosen.slice(first, last).map((row) => row.name));
	const kept = new Map(), free = [];
	for (const tr of body.querySelectorAll("tr[data-name]")) {
		if (want.has(tr.dataset.name)) kept.set(tr.dataset.name, tr);
		else free.push(tr);
	}
	const nodes = [];
	for (let i = first; i < last; i++) {
		const tr = kept.get(chosen[i].name) ?? free.pop() ?? blank.cloneNode(true);
		fill(tr, chosen[i]);
		if (chosen.length > mostRows) tr.setAttribute("aria-rowindex", i + 2);
		else tr.removeAttribute("aria-rowindex");
		nodes.push(tr);
	}
	if (!nodes.length) {
		const none = document.createElement("tr"), cell = document.createElement("td");
		none.className = "none";
		cell.colSpan = 5;
		cell.textContent = all.length ? "No autoscaler matches." : "There are no autoscalers yet.";
		none.append(cell);
		nodes.push(none);
	}
	if (first > 0) nodes.unshift(spacer(first * rowHeight));
	if (last < chosen.length) nodes.push(spacer((chosen.length - last) * rowHeight));
	// Rows that are already in place are not moved, so that they keep the focus.
	nodes.forEach((node, i) => {
		if (body.children[i] !== node) body.insertBefore(node, body.children[i] ?? null);
	});
	while (body.children.length > nodes.length) body.lastElementChild.remove();
	drawLines();
}

function showNotices(list) {
	const fresh = document.createElement("ul");
	for (const one of list) {
		const line = document.createElement("li"), subject = document.createElement(one.query ? "a" : "b");
		line.className = one.state;
		subject.textContent = one.subject;
		if (one.query) subject.href = one.query;
		line.append(subject);
		if (one.message) {
			const message = document.createElement("span");
			message.textContent = one.message;
			line.append(message);
		}
		fresh.append(line);
	}
	if (fresh.innerHTML !== notices.innerHTML.replaceAll("\n", "")) notices.replaceChildren(...fresh.children);
}

function take(update) {
	rows.clear();
	for (const row of update.rows) {
		row.text = `${row.name} ${row.reference} ${row.problem ?? ""}`.toLowerCase();
		rows.set(row.name, row);
	}
	all = [...rows.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
	total.textContent = update.total;
	showNotices(update.notices);
	for (const fleet of update.fleets) {
		if (![...form.fleet.options].some((option) => option.value === fleet)) form.fleet.add(new Option(fleet, fleet));
	}
	choose();
}

// If there are too many rows for the script, the server filters.
let loading, where = location.href;

function load() {
	clearTimeout(loading);
	loading = setTimeout(async () => {
		try {
			const page = await fetched(where);
			for (const id of ["rows", "pages", "notices", "total"]) morph(document.getElementById(id), page.getElementById(id));
			drawLines();
		} finally {
			load.next = setTimeout(load, 10_000);
		}
	}, 250);
	clearTimeout(load.next);
}

let drawing = false;
addEventListener("scroll", () => {
	if (drawing) return;
	drawing = true;
	requestAnimationFrame(() => {
		drawing = false;
		if (whole && chosen.length > mostRows) render();
		else drawLines();
	});
}, { passive: true });
addEventListener("resize", () => (whole && all.length ? render() : drawLines()));

if (whole) {
	for (const link of document.querySelectorAll("#pages a")) link.remove();
	follow("", take);
} else {
	follow("\u0000", () => {}); // shows only the state of the connection
	drawLines();
	load();
	if (zoneIsNew) load();
}
setInterval(drawLines, lineLasts / 2);
const acts = document.getElementById("acts");
if (acts) offer(acts, {}, () => {});
