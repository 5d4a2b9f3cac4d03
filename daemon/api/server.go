package api

import (
	"log"
	"net/http"
	"time"
)

// The limits of a server: what a slow or hostile client can hold of it.
const (
	readHeaderTimeout = 10 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = time.Minute
	idleTimeout       = 2 * time.Minute
	maxHeaderBytes    = 32 << 10
)

// NewServer returns a server of handler with limits on time and size. It writes
// its own errors to errorLog; nil means the standard logger. The caller serves
// and shuts it down.
func NewServer(handler http.Handler, errorLog *log.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		ReadTimeout:       readTimeout,
		WriteTimeout:      writeTimeout,
		IdleTimeout:       idleTimeout,
		MaxHeaderBytes:    maxHeaderBytes,
		ErrorLog:          errorLog,
		// "OPTIONS *" would else be answered past limits and passwords.
		DisableGeneralOptionsHandler: true,
	}
}
