// Package redact hides what may be secret in whatever hpad shows: its
// configuration, the responses of its API, its log and its errors. There is one rule
// for all of them, and it errs on hiding. It goes by names ("DB_PASSWORD=…",
// "--token …", {api_key="…"}), by places (credentials of a URL, what follows "-p"
// or "Bearer") and by the shapes of well-known tokens. Numbers, and the names of metrics
// and labels, are not secrets. A secret without a name, as in "echo hunter2", is not
// recognized.
package redact
