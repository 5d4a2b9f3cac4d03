package nomad

import (
	"os"
	"testing"

	"github.com/hpad/hpad/test/internal/parallel"
)

func TestMain(m *testing.M) {
	if dir := os.Getenv(healthVariable); dir != "" {
		serveHealth(dir)
	}
	os.Exit(parallel.Run(m, 12))
}
