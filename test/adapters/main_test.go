package adapters

import (
	"testing"

	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) { program.Exit(m.Run()) }
