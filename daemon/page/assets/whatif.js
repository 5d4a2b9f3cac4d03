// The form "What if?": the server simulates and renders the table; this script sends the form without a
// new page, marks changed fields and draws the counts.
import { clock, element, fetched, morph } from "./common.js";

const section = document.getElementById("whatif");

/** offer makes the form work without loading a new page. here is the URL of the view. */
export function offer(here) {
	section.addEventListener("submit", async (event) => {
		event.preventDefault();
		const form = event.target, button = form.querySelector("button"), query = new URLSearchParams(new FormData(form));
		section.setAttribute("aria-busy", "true");
		button.disabled = true;
		try {
			// A simulation takes at most 2 seconds, but its data can come from Prometheus.
			const part = await fetched(`${here}?part=whatif&${query}`, { signal: AbortSignal.timeout(60_000) });
			morph(section, part.getElementById("whatif"));
			draw();
		} catch (problem) {
			section.querySelector(".result").replaceChildren(element("p", { className: "problem attention" }, `The simulation failed: ${problem.message}`));
		} finally {
			section.removeAttribute("aria-busy");
			button.disabled = false;
		}
	});
	const mark = (input) => input.classList.toggle("changed", input.value !== input.dataset.active);
	section.addEventListener("input", ({ target }) => "active" in target.dataset && mark(target));
	section.addEventListener("click", (event) => {
		if (!event.target.closest("[data-reset]")) return;
		event.preventDefault();
		for (const input of section.querySelectorAll("[data-active]")) {
			input.value = input.dataset.active;
			mark(input);
		}
	});
	draw();
}

let plot;

function draw() {
	plot?.destroy();
	plot = undefined;
	const box = document.getElementById("whatif-drawing"), key = document.getElementById("whatif-key");
	if (!box) return;
	box.hidden = key.hidden = false;
	const { time, demand, rows } = JSON.parse(box.dataset.series), style = getComputedStyle(document.documentElement);
	const of = (name) => style.getPropertyValue(name).trim(), stepped = uPlot.paths.stepped({ align: 1 });
	const lines = [
		{ label: "instances that the load needs", stroke: of("--muted"), width: 1, dash: [2, 4], values: demand },
		...rows.map((row, i) => ({ label: row.label, stroke: i ? of("--held") : of("--accent"), width: 2, paths: stepped, values: row.replicas })),
	];
	const axis = { stroke: of("--muted"), grid: { stroke: of("--edge"), width: 1 }, ticks: { show: false }, font: "12px system-ui, sans-serif" };
	const labels = (u, splits) => splits.map((at) => clock(at).slice(5, 16).replace(" ", "\n"));
	plot = new uPlot({
		width: box.clientWidth, height: 300, legend: { show: false }, cursor: { y: false, drag: { x: false } },
		tzDate: (at) => uPlot.tzDate(new Date(at * 1000), document.body.dataset.zone),
		scales: { y: { range: (u, min, max) => [0, 1.1 * Math.max(1, max)] } },
		series: [{}, ...lines.map(({ values, ...line }) => ({ ...line, points: { show: false } }))],
		axes: [{ ...axis, values: labels, size: 46 }, { ...axis, size: 40 }],
		hooks: { setCursor: [(u) => show(u.cursor.idx)] },
	}, [time, ...lines.map((line) => line.values)], box);
	const values = lines.map(() => element("b"));
	key.replaceChildren(...lines.map((line, i) => {
		const sample = element("span", { className: "sample" });
		sample.style.borderTopColor = line.stroke;
		sample.style.borderTopStyle = line.dash ? "dotted" : "solid";
		return element("li", {}, sample, `${line.label} `, values[i]);
	}));
	function show(index) {
		lines.forEach((line, i) => {
			const value = index === null || index === undefined ? undefined : line.values[index];
			values[i].textContent = value === undefined || value === null ? "" : String(Math.round(value * 10) / 10);
		});
	}
}

addEventListener("resize", () => {
	const box = document.getElementById("whatif-drawing");
	if (plot && box) plot.setSize({ width: box.clientWidth, height: 300 });
});
