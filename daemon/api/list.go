package api

import (
	"bufio"
	"net/http"

	"github.com/hpad/hpad/daemon/redact"
)

// listBuffer is how many bytes of a list are written at once.
const listBuffer = 64 << 10

// listWriter writes 200 with a list in the envelope, item by item.
type listWriter struct {
	w     http.ResponseWriter
	to    *bufio.Writer
	items int
	// size is the number of bytes so far, those that wait to be written included.
	size int
}

func newListWriter(w http.ResponseWriter) *listWriter {
	w.Header().Set("Content-Type", "application/json")
	l := &listWriter{w: w, to: bufio.NewWriterSize(w, listBuffer)}
	l.write(`{"status":"` + statusSuccess + `","data":[`)
	return l
}

// add writes an encoded item without secrets, and reports whether to go on. One that could not be
// encoded is an error by itself as long as nothing was written, and then breaks the
// response off, so that nobody takes it for the whole.
func (l *listWriter) add(item []byte, err error) bool {
	if err != nil {
		if l.to.Buffered() < l.size {
			panic(http.ErrAbortHandler)
		}
		writeError(l.w, http.StatusInternalServerError, ErrorInternal, "encode the answer: "+err.Error())
		return false
	}
	if l.items > 0 {
		l.write(",")
	}
	l.items++
	return l.write(string(redact.JSON(item)))
}

// end ends the list; more asks for what comes after it, and is empty where nothing
// does. It needs no escapes.
func (l *listWriter) end(more string) {
	l.write("]")
	if more != "" {
		l.write(`,"continue":"` + more + `"`)
	}
	l.write("}\n")
	_ = l.to.Flush() // the client went away
}

// write returns false once the client went away.
func (l *listWriter) write(text string) bool {
	l.size += len(text)
	_, err := l.to.WriteString(text)
	return err == nil
}
