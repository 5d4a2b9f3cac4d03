package docker

import (
	"os"
	"testing"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) {
	code := parallel.Run(m, 6)
	program.Clean()
	os.Exit(code)
}
