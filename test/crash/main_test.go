package crash

import (
	"os"
	"testing"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
)

const patience = world.Patience

func TestMain(m *testing.M) {
	code := parallel.Run(m, 9)
	program.Clean()
	os.Exit(code)
}
