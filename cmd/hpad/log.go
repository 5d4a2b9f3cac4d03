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

// logger returns a logger that removes secrets and control characters. Under journald, which adds its own timestamps, log
// lines have no timestamp.
func (f *logFlags) logger(w io.Writer) (*zap.Logger, error) {
	level, err := zapcore.ParseLevel(f.level)
	if err != nil {
		return nil, wrongUse(fmt.Errorf("--log-level %q: unknown level", f.level), "the levels are debug, info, warn and error")
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
		return nil, wrongUse(fmt.Errorf("--log-format %q: unknown format", f.format), "the formats are console and json")
	}
	return zap.New(zapcore.NewCore(encoder, zapcore.Lock(zapcore.AddSync(redact.Writer(printable{w}))), level)), nil
}
