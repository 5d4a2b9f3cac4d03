package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/compression"
)

// The sizes of the database. Its defaults are those of a server with millions of
// series and take tens of megabytes before the first of them.
const (
	stripeSize       = 512
	walSegmentSize   = 8 << 20
	minBlockDuration = 5 * time.Minute
	maxBlockDuration = 2 * time.Hour
	// blocksPerRetention is how finely old samples are dropped.
	blocksPerRetention = 12
)

// troubleLifetime is how long an error of the database's own background work
// stays among the problems: it tries again every minute.
const troubleLifetime = 5 * time.Minute

// store is an open database that an older and a newer source may share during
// a reload.
type store struct {
	db      *tsdb.DB
	dir     string
	clock   Clock
	trouble *troubleLog

	mu      sync.Mutex
	holders int
	// failure is why the newest commit failed; nil when it did not.
	failure error
}

// openStore opens or creates the database in a directory, and repairs what a
// crash left damaged at the end of its write-ahead log.
func openStore(dir string, retention time.Duration, clock Clock) (*store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("directory %q of the samples: %w", dir, err)
	}
	trouble := &troubleLog{}
	db, err := tsdb.Open(dir, slog.New(trouble), nil, storeOptions(retention), nil)
	switch {
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) && strings.HasPrefix(err.Error(), "lock "):
		return nil, fmt.Errorf("directory %q of the samples is in use by another process: stop that one or set dir to another directory: %w", dir, err)
	case err != nil:
		return nil, fmt.Errorf("open directory %q of the samples (move it away to start with an empty one): %w", dir, err)
	}
	return &store{db: db, dir: dir, clock: clock, trouble: trouble, holders: 1}, nil
}

func storeOptions(retention time.Duration) *tsdb.Options {
	block := min(max(retention/blocksPerRetention, minBlockDuration), maxBlockDuration)
	options := tsdb.DefaultOptions()
	options.RetentionDuration = retention.Milliseconds()
	options.MinBlockDuration = block.Milliseconds()
	options.MaxBlockDuration = block.Milliseconds()
	options.WALSegmentSize = walSegmentSize
	options.WALCompression = compression.Snappy
	options.WALReplayConcurrency = 1
	options.StripeSize = stripeSize
	options.HeadChunksWriteBufferSize = chunks.MinWriteBufferSize
	return options
}

// share returns the store for one more holder.
func (s *store) share() *store {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.holders++
	return s
}

// release closes the database with its last holder.
func (s *store) release() error {
	s.mu.Lock()
	s.holders--
	last := s.holders == 0
	s.mu.Unlock()
	if !last {
		return nil
	}
	return s.db.Close()
}

func (s *store) appender() storage.AppenderV2 {
	return s.db.AppenderV2(context.Background())
}

// commit stores what was appended, all or nothing.
func (s *store) commit(app storage.AppenderV2) error {
	err := app.Commit()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failure = err
	return err
}

func (s *store) problems() []string {
	s.mu.Lock()
	failure := s.failure
	s.mu.Unlock()
	var problems []string
	if failure != nil {
		problems = append(problems, fmt.Sprintf("samples cannot be stored in %q: %v", s.dir, failure))
	}
	if message := s.trouble.recent(time.Now()); message != "" {
		problems = append(problems, fmt.Sprintf("database in %q: %s", s.dir, message))
	}
	return problems
}

// troubleLog is a slog.Handler that keeps the last error that the database
// reports of its background work, and drops everything else.
type troubleLog struct {
	mu      sync.Mutex
	message string
	at      time.Time
}

// Enabled is for errors alone.
func (*troubleLog) Enabled(_ context.Context, level slog.Level) bool {
	return level >= slog.LevelError
}

// Handle keeps the message with its attributes.
func (l *troubleLog) Handle(_ context.Context, record slog.Record) error {
	var text strings.Builder
	text.WriteString(record.Message)
	record.Attrs(func(attr slog.Attr) bool {
		fmt.Fprintf(&text, " %s=%s", attr.Key, attr.Value)
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.message, l.at = text.String(), record.Time
	return nil
}

// WithAttrs returns the same log: who reports does not matter.
func (l *troubleLog) WithAttrs([]slog.Attr) slog.Handler { return l }

// WithGroup returns the same log.
func (l *troubleLog) WithGroup(string) slog.Handler { return l }

// recent returns the last error, or nothing once it is old.
func (l *troubleLog) recent(now time.Time) string {
	l.mu.Lock()
	defer l.mu.Unlock()
	if now.Sub(l.at) > troubleLifetime {
		return ""
	}
	return l.message
}
