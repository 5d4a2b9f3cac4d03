package main

import (
	"bytes"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"github.com/hpad/hpad/cmd/hpad/show"
	"github.com/hpad/hpad/daemon/redact"
)

type logFlags struct{ level, format string }

func (f *logFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringVar(&f.level, "log-level", "info", "minimum `level` of the log: debug, info, warn or error")
	cmd.Flags().StringVar(&f.format, "log-format", "console", "`format` of the log: console or json")
	completeFlag(cmd, "log-level", "debug", "info", "warn", "error")
	completeFlag(cmd, "log-format", "console", "json")
}

// printable is a writer that replaces characters that could control the terminal, because the log
// contains the output of workers and texts from servers.
type printable struct{ to io.Writer }

func (p printable) Write(lines []byte) (int, error) {
	_, err := p.to.Write(bytes.Map(func(letter rune) rune {
		if letter == '\t' {
			return letter
		}
		return show.Printable(letter)
	}, lines))
	return len(lines), err
}

// loggers returns a logger for the daemon and one for the output of workers. They remove secrets and
// control characters. The daemon never waits for a blocked writer; the output of workers does. Sync
// of the first one waits until its lines are written. Under journald, which adds its own timestamps,
// log lines have no timestamp.
func (f *logFlags) loggers(w io.Writer) (own, output *zap.Logger, err error) {
	level, err := zapcore.ParseLevel(f.level)
	if err != nil {
		return nil, nil, wrongUse(fmt.Errorf("--log-level %q: unknown level", f.level), "the levels are debug, info, warn and error")
	}
	encoding := zap.NewProductionEncoderConfig()
	encoding.EncodeTime = zapcore.ISO8601TimeEncoder
	encoding.EncodeDuration = zapcore.StringDurationEncoder
	if os.Getenv("JOURNAL_STREAM") != "" {
		encoding.TimeKey = zapcore.OmitKey
	}
	var encoder zapcore.Encoder
	switch f.format {
	case "console":
		encoding.EncodeLevel = zapcore.CapitalLevelEncoder
		encoder = zapcore.NewConsoleEncoder(encoding)
	case "json":
		encoder = zapcore.NewJSONEncoder(encoding)
	default:
		return nil, nil, wrongUse(fmt.Errorf("--log-format %q: unknown format", f.format), "the formats are console and json")
	}
	queue := newLogQueue(redact.Writer(printable{w}), encoder)
	return zap.New(zapcore.NewCore(encoder, queue, level)), zap.New(zapcore.NewCore(encoder, patient{queue}, level)), nil
}
