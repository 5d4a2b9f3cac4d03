package crash

import (
	"os"
	"testing"

	"github.com/hpad/hpad/test/internal/parallel"
	"github.com/hpad/hpad/test/internal/program"
	"github.com/hpad/hpad/test/internal/world"
)

// patience is how long hpad, a cloud and Nomad may take to do what they do within
// seconds on an idle machine.
const patience = world.Patience

func TestMain(m *testing.M) {
	code := parallel.Run(m, 9)
	program.Clean()
	os.Exit(code)
}
