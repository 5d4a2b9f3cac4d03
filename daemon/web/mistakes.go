package web

import (
	"sync"
	"time"

	"go.uber.org/zap"
)

// mistakeRepeat is after how long the same mistake in a web config is logged again.
const mistakeRepeat = time.Minute

// Mistakes logs mistakes in a web config as they are found: another one at once, and
// the same once in a while. It is safe for concurrent use.
type Mistakes struct {
	path string
	log  *zap.Logger

	mu sync.Mutex
	// last is the mistake that was logged last, and logged when.
	last   string
	logged time.Time
}

// NewMistakes returns the log of mistakes in the web config at path.
func NewMistakes(path string, log *zap.Logger) *Mistakes { return &Mistakes{path: path, log: log} }

// Check looks for a mistake and logs it. One that was mended meanwhile is another one
// when it comes back.
func (m *Mistakes) Check() {
	if err := Check(m.path); err != nil {
		m.Log(err)
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = ""
}

// Log logs a mistake.
func (m *Mistakes) Log(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := time.Now(); err.Error() != m.last || now.Sub(m.logged) >= mistakeRepeat {
		m.last, m.logged = err.Error(), now
		m.log.Error("the web config has a mistake", zap.String("web_config", m.path), zap.String("err", err.Error()))
	}
}
