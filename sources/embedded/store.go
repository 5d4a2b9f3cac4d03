package embedded

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunks"
	"github.com/prometheus/prometheus/util/compression"

	"github.com/hpad/hpad/targets/clock"
)

// The sizes of the database. Its defaults are meant for millions of series, and use tens of
// megabytes even if it is empty.
const (
	stripeSize       = 512
	walSegmentSize   = 8 << 20
	minBlockDuration = 5 * time.Minute
	maxBlockDuration = 2 * time.Hour
	// blocksPerRetention is the number of blocks in the retention time. Data is deleted in
	// whole blocks.
	blocksPerRetention = 12
)

// backgroundErrorAge is how long an error of the database's background work is shown as
// a problem. The database retries every minute.
const backgroundErrorAge = 5 * time.Minute

type store struct {
	db         *tsdb.DB
	dir        string
	clock      *clock.Clock
	background *errorLog
	// trial is nil unless the source is checked without a start.
	trial *trial
	// failure is the error of the last commit.
	failure atomic.Pointer[error]
}

// openStore opens or creates the database in a directory. After a crash, it repairs the
// write-ahead log.
func openStore(dir string, retention time.Duration, monotonic *clock.Clock) (*store, error) {
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return nil, fmt.Errorf("create sample directory %q: %w", dir, err)
	}
	background := &errorLog{}
	db, err := tsdb.Open(dir, background.logger(), nil, storeOptions(retention), nil)
	switch {
	case errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EACCES) && strings.HasPrefix(err.Error(), "lock "):
		return nil, fmt.Errorf("sample directory %q is in use by another process (%w); stop that process or set dir to a different directory", dir, err)
	case err != nil:
		return nil, fmt.Errorf("open sample directory %q (move it away to start with an empty one): %w", dir, err)
	}
	return &store{db: db, dir: dir, clock: monotonic, background: background}, nil
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

func (s *store) appender() storage.AppenderV2 {
	return s.db.AppenderV2(context.Background())
}

// commit stores all appended samples. If it fails, it stores no sample.
func (s *store) commit(app storage.AppenderV2) error {
	err := app.Commit()
	s.failure.Store(&err)
	return err
}

func (s *store) problems() []string {
	var problems []string
	if err := s.failure.Load(); err != nil && *err != nil {
		problems = append(problems, fmt.Sprintf("samples cannot be stored in %q: %v", s.dir, *err))
	}
	if message := s.background.recent(time.Now()); message != "" {
		problems = append(problems, fmt.Sprintf("database in %q: %s", s.dir, message))
	}
	return problems
}

// errorLog stores the last error of the database's background work.
type errorLog struct {
	last atomic.Pointer[backgroundError]
}

type backgroundError struct {
	message string
	at      time.Time
}

func (l *errorLog) logger() *slog.Logger {
	return slog.New(slog.NewTextHandler(l, &slog.HandlerOptions{
		Level: slog.LevelError,
		ReplaceAttr: func(_ []string, attr slog.Attr) slog.Attr {
			if attr.Key == slog.TimeKey || attr.Key == slog.LevelKey {
				return slog.Attr{}
			}
			return attr
		},
	}))
}

func (l *errorLog) Write(message []byte) (int, error) {
	l.last.Store(&backgroundError{strings.TrimSpace(string(message)), time.Now()})
	return len(message), nil
}

// recent returns the last error, or "" if it is old.
func (l *errorLog) recent(now time.Time) string {
	last := l.last.Load()
	if last == nil || now.Sub(last.at) > backgroundErrorAge {
		return ""
	}
	return last.message
}
