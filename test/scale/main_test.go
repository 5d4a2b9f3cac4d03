package main

import (
	"os"
	"testing"

	"github.com/hpad/hpad/test/internal/program"
)

func TestMain(m *testing.M) {
	code := m.Run()
	program.Clean()
	os.Exit(code)
}
