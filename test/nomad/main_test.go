package nomad

import (
	"os"
	"testing"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(healthVariable); dir != "" {
		serveHealth(dir)
	}
	code := parallel.Run(m, 12)
	program.Clean()
	os.Exit(code)
}
