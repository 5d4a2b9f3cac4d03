package aws

import (
	"os"
	"testing"

	"github.com/hpad/hpad/test/internal/parallel"
)

func TestMain(m *testing.M) {
	os.Exit(parallel.Run(m, 12))
}
