// What both views have in common: the zone of the browser, following what changes, and
// putting what the server writes in the place of what is there.

/** base is the URL of the list, with a slash at its end. */
export const base = new URL(document.querySelector(".mark").getAttribute("href"), location.href).href;

const pollEvery = 5000, retryEvery = 2000, firstWithin = 4000, silentFor = 30_000, answerWithin = 10_000;

document.body.classList.add("js");
for (const one of document.querySelectorAll(".js-only")) one.hidden = false;

const zone = Intl.DateTimeFormat().resolvedOptions().timeZone;
const before = document.cookie.match(/(?:^|; )zone=([^;]*)/)?.[1];
document.cookie = `zone=${encodeURIComponent(zone)}; path=${new URL(base).pathname}; max-age=31536000; samesite=strict`;

/** zoneIsNew is whether the view was made in another zone than the browser's. */
export const zoneIsNew = before !== encodeURIComponent(zone);
if (zoneIsNew) {
	fetched(location.href).then((page) => {
		document.body.dataset.zone = page.body.dataset.zone;
		morph(document.querySelector("footer"), page.querySelector("footer"));
	}, () => {}); // who reads that hpad does not answer
}

// How far the clock of the browser is off, where that is more than a message takes.
const answered = performance.timeOrigin + (performance.getEntriesByType("navigation")[0]?.responseStart ?? 0);
const off = Number(document.body.dataset.made) - answered, skew = Math.abs(off) > 3000 ? off : 0;

/** now is the server's time in seconds since 1970. */
export const now = () => (Date.now() + skew) / 1000;

const clocks = new Map();

/** clock writes seconds since 1970 as the server does, in the zone of the page or another one. */
export function clock(seconds, zone = document.body.dataset.zone) {
	if (!clocks.has(zone)) clocks.set(zone, new Intl.DateTimeFormat("sv-SE", { timeZone: zone, dateStyle: "short", timeStyle: "medium" }));
	return clocks.get(zone).format(new Date(seconds * 1000));
}

const status = document.getElementById("live");

/** say tells how the page is connected; lost ones are told aloud. */
export function say(text, lost = false) {
	if (status.textContent !== text) status.textContent = text;
	status.classList.toggle("lost", lost);
}

/** address shows a URL as that of the page; where it was opened with a password in it, none can be. */
export function address(url) {
	try {
		history.replaceState(null, "", url);
	} catch (problem) {
		if (problem.name !== "SecurityError") throw problem;
	}
}

/** data asks the API and returns its data, or throws what it says is wrong. */
export async function data(path, body) {
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
	return answer.data;
}

/**
 * follow calls take with all rows and then with each change, of all autoscalers or of
 * the one of a name. Where a stream does not get through, it asks instead. A page that
 * nobody sees does neither: a browser has few connections for all its pages.
 */
export function follow(name, take) {
	const query = name ? `?name=${encodeURIComponent(name)}` : "";
	let failures = 0, stream, timer;
	const taken = (look) => {
		say("live");
		take(look);
	};
	const later = (what, wait) => {
		clearTimeout(timer);
		timer = setTimeout(what, wait);
	};
	const close = () => {
		clearTimeout(timer);
		stream?.close();
		stream = undefined;
	};
	// The server says something every 10 seconds at least.
	const open = () => {
		close();
		const mine = stream = new EventSource(base + "changes" + query);
		const silent = () => {
			close();
			poll();
		};
		later(silent, firstWithin);
		stream.addEventListener("beat", () => later(silent, silentFor));
		stream.onmessage = (event) => {
			failures = 0;
			later(silent, silentFor);
			taken(JSON.parse(event.data));
		};
		stream.onerror = () => {
			if (mine !== stream) return;
			close();
			failures++;
			later(failures > 1 ? poll : open, retryEvery);
		};
	};
	const poll = async () => {
		try {
			const response = await fetch(base + "rows" + query, { cache: "no-store", signal: AbortSignal.timeout(answerWithin) });
			if (!response.ok) throw new Error(response.status);
			const look = await response.json();
			if (document.hidden) return;
			later(failures > 0 ? open : poll, pollEvery);
			failures = 0;
			taken(look);
		} catch {
			if (document.hidden) return;
			failures++;
			say("no connection to hpad: what is shown is old", true);
			later(poll, retryEvery);
		}
	};
	document.addEventListener("visibilitychange", () => (document.hidden ? close() : open()));
	addEventListener("offline", () => say("no network: what is shown is old", true));
	if (!document.hidden) open();
}

/** fetched returns what the server shows at a URL, as a document. */
export async function fetched(url, options) {
	const response = await fetch(url, { cache: "no-store", signal: AbortSignal.timeout(answerWithin), ...options });
	if (!response.ok && response.status !== 404) throw new Error(response.status);
	return new DOMParser().parseFromString(await response.text(), "text/html");
}

/**
 * morph makes a node like another one, and touches only what differs: what has the focus, is
 * selected or was opened stays so.
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

/** element makes an element with properties and children; texts are texts. */
export function element(name, properties = {}, ...children) {
	const made = Object.assign(document.createElement(name), properties);
	made.append(...children);
	return made;
}
