// Package web serves HTTP as a web config says: the file format of Prometheus's
// exporter-toolkit, with TLS, client certificates and users with passwords.
package web
