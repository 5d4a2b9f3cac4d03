package httpclient

import (
	"os"
	"time"
)

// Stamp is by what a change of a file is noticed. Two of them are of the same
// content as far as their files' times and sizes show; compare them by ==.
type Stamp struct {
	path string
	// modified and size are zero when the file cannot be found.
	modified time.Time
	size     int64
}

// StampFiles returns the stamps of files; those without a name are left out. It
// reads none of them.
func StampFiles(paths ...string) []Stamp {
	var stamps []Stamp
	for _, path := range paths {
		if path == "" {
			continue
		}
		s := Stamp{path: path}
		if info, err := os.Stat(path); err == nil {
			s.modified, s.size = info.ModTime(), info.Size()
		}
		stamps = append(stamps, s)
	}
	return stamps
}
