// Shared by both views: the browser's time zone, updates, and the replacement of parts of the
// document with new content from the server.

/** base is the URL of the list, with a trailing slash. */
export const base = new URL(document.querySelector(".mark").getAttribute("href"), location.href).href;

const pollEvery = 2000, answerWithin = 10_000;

document.body.classList.add("js");
for (const one of document.querySelectorAll(".js-only")) one.hidden = false;

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const before = document.cookie.match(/(?:^|; )zone=([^;]*)/)?.[1];
document.cookie = `zone=${encodeURIComponent(zone)}; path=${new URL(base).pathname}; max-age=31536000; samesite=strict`;

/** zoneIsNew is set if the times in the view are not in the browser's time zone. */
export const zoneIsNew = before !== encodeURIComponent(zone);
if (zoneIsNew) {
	fetched(location.href).then((page) => {
		document.body.dataset.zone = page.body.dataset.zone;
		morph(document.querySelector("footer"), page.querySelector("footer"));
	}, () => {}); // follow reports a lost connection
}

// The difference between the clocks of the server and the browser, if it exceeds the delay of a
// response.
const answered = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0);
const off = Number(document.body.dataset.made) - answered, skew = Math.abs(off) > 3000 ? off : 0;

/** now is the server's time in seconds since 1970. */
export const now = () => (Date.now() + skew) / 1000;

const clocks = new Map();

/** clock formats seconds since 1970 like the server, in the zone of the page by default. */
export function clock(seconds, zone = document.body.dataset.zone) {
	if (!clocks.has(zone)) clocks.set(zone, new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" }));
	return clocks.get(zone).format(new Date(seconds * 1000));
}

const status = document.getElementById("live");

/** say displays the state of the connection. */
export function say(text, lost = false) {
	if (status.textContent !== text) status.textContent = text;
	status.classList.toggle("lost", lost);
}

/** address changes the URL of the page. Browsers reject it if the URL contains a password. */
export function address(url) {
	try {
		history.replaceState(null, "", url);
	} catch (problem) {
		if (problem.name !== "SecurityError") throw problem;
	}
}

/** data calls the API and returns its data, or throws its error. It calls warn with the warnings. */
export async function data(path, body, warn) {
	const request = body === undefined ? {} : { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) };
	const response = await fetch(base + path, { ...request, cache: "no-store" });
	const text = await response.text();
	let answer;
	try {
		answer = JSON.parse(text);
	} catch {
		throw new Error(`${response.status}: ${text.slice(0, 200)}`);
	}
	if (!response.ok || answer.status === "error") throw new Error(answer.error ?? `${response.status}`);
	warn?.(answer.warnings ?? []);
	return answer.data;
}

/**
 * follow calls take with the rows of all autoscalers, or only of the named one, at the start and
 * after each change. It polls less often for many rows, and not while the page is hidden.
 */
export function follow(name, take) {
	const query = name ? `?name=${encodeURIComponent(name)}` : "";
	let before, timer;
	const poll = async () => {
		clearTimeout(timer);
		let wait = pollEvery;
		try {
			const response = await fetch(base + "rows" + query, { cache: "no-store", signal: AbortSignal.timeout(answerWithin) });
			if (!response.ok) throw new Error(response.status);
			const text = await response.text(), { rows, ...rest } = JSON.parse(text);
			wait *= 1 + rows.length / 1000;
			say("live");
			if (text !== before) take({ rows, ...rest });
			before = text;
		} catch {
			say("no connection to hpad: the page shows outdated data", true);
		}
		clearTimeout(timer);
		if (!document.hidden) timer = setTimeout(poll, wait);
	};
	document.addEventListener("visibilitychange", () => (document.hidden ? clearTimeout(timer) : poll()));
	addEventListener("offline", () => say("no network: the page shows outdated data", true));
	if (!document.hidden) poll();
}

/** fetched returns the document at a URL. */
export async function fetched(url, options) {
	const response = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(answerWithin), ...options });
	if (!response.ok && response.status !== 404) throw new Error(response.status);
	return new DOMParser().parseFromString(await response.text(), "text/html");
}

/**
 * morph makes a node equal to another node and changes only the differences, so that focus,
 * selection and opened details remain.
 */
export function morph(from, to) {
	if (from.nodeType !== to.nodeType || from.nodeName !== to.nodeName) {
		from.replaceWith(document.importNode(to, true));
		return;
	}
	if (from.nodeType !== Node.ELEMENT_NODE) {
		if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
		return;
	}
	for (const { name } of [...from.attributes]) {
		if (!to.hasAttribute(name) && !(name === "open" && from.nodeName === "DETAILS")) from.removeAttribute(name);
	}
	for (const { name, value } of to.attributes) {
		if (from.getAttribute(name) !== value) from.setAttribute(name, value);
	}
	const old = [...from.childNodes], fresh = [...to.childNodes];
	fresh.forEach((node, i) => (i < old.length ? morph(old[i], node) : from.append(document.importNode(node, true))));
	for (const node of old.slice(fresh.length)) node.remove();
}

/** element creates an element with properties and children. Strings become text nodes. */
export function element(name, properties = {}, ...children) {
	const made = Object.assign(document.createElement(name), properties);
	made.append(...children);
	return made;
}
