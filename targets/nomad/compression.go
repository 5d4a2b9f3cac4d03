package nomad

import (
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
)

// unzipped is the body of a compressed response.
type unzipped struct {
	compressed io.ReadCloser
	reader     *gzip.Reader
	err        error
}

// unzippers are there to be used again: each holds a window of 32 KiB and tables.
var unzippers = sync.Pool{New: func() any { return new(gzip.Reader) }}

// unzip replaces the body of a compressed response.
func unzip(response *http.Response) {
	if response.Header.Get("Content-Encoding") == "gzip" {
		response.Body = &unzipped{compressed: response.Body}
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		response.ContentLength = -1
	}
}

// Read reads on. A body of no bytes at all is empty.
func (u *unzipped) Read(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	if u.reader == nil {
		u.reader, _ = unzippers.Get().(*gzip.Reader)
		if u.err = u.reader.Reset(u.compressed); u.err != nil {
			return 0, u.err
		}
	}
	n, err := u.reader.Read(p)
	u.err = err
	return n, err
}

// Close closes the response, and keeps the reader for another.
func (u *unzipped) Close() error {
	if u.reader != nil {
		unzippers.Put(u.reader)
		u.reader = nil
	}
	u.err = http.ErrBodyReadAfterClose
	return u.compressed.Close()
}
