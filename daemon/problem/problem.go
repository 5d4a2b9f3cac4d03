// Package problem suppresses repeated reports of problems: each cause is reported once and not at
// every occurrence.
package problem

import (
	"errors"
	"hash/fnv"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"go.uber.org/zap"

	"github.com/hpad/hpad/guard"
)

// Problem stores the current error of a component. The zero value contains no error. It is safe for
// concurrent use.
type Problem struct {
	text atomic.Pointer[string]

	mu      sync.Mutex
	deduper Deduper
}

// Set stores or clears the error and reports whether its cause is new. The fields are for the log
// entry.
func (p *Problem) Set(err error) (news bool, fields []zap.Field) {
	cause := ""
	if err == nil {
		p.text.Store(nil)
	} else {
		text := Shorten(err.Error())
		p.text.Store(&text)
		cause = Cause(text)
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	change := p.deduper.Update(cause, time.Now(), false)
	if !change.News {
		return false, nil
	}
	return true, p.deduper.Fields(change.Flapped, func(at time.Time) time.Time { return at })
}

// Exists reports whether the component has an error.
func (p *Problem) Exists() bool { return p.text.Load() != nil }

// Text returns the text of the error, or "" if there is no error.
func (p *Problem) Text() string {
	if text := p.text.Load(); text != nil {
		return *text
	}
	return ""
}

// Cause returns an identity for error texts. It ignores words with a digit, so that numbers, times
// and IDs do not change the identity. It returns "" if there are no texts.
func Cause(texts ...string) string {
	if len(texts) == 0 {
		return ""
	}
	hash := fnv.New64a()
	hasText := false
	for _, text := range texts {
		for word := range strings.FieldsSeq(text) {
			hasText = true
			if strings.ContainsFunc(word, unicode.IsDigit) {
				word = "#"
			}
			_, _ = hash.Write([]byte(word + " ")) // writing to a hash never fails
		}
		_, _ = hash.Write([]byte{'\n'})
	}
	if !hasText {
		return ""
	}
	return strconv.FormatUint(hash.Sum64(), 36)
}

// longestText limits texts from platforms, sources and targets, in bytes, because they are included
// in records, history entries, events and notifications.
const longestText = 2000

// Shorten cuts a text to at most longestText bytes.
func Shorten(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + " …"
}

// LogPanic logs a panic and its stack. It ignores other errors.
func LogPanic(log *zap.Logger, what, name string, err error) {
	if caught, ok := errors.AsType[*guard.Panic](err); ok {
		log.Error("panic in a "+what, zap.String(what, name), zap.NamedError("err", err), zap.ByteString("stack", caught.Stack))
	}
}
