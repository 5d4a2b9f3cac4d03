// Package proxy runs the examples of docs/proxies.md with real proxies, a worker in Python and a
// steady load. It checks that no request fails while hpad scales the workers.
package proxy
