package httpclient

import (
	"os"
	"time"
)

// Stamp detects changes of a file by its time and size. Compare it with ==.
type Stamp struct {
	path string
	// modified and size are zero if the file does not exist.
	modified time.Time
	size     int64
}

// StampFiles returns the stamps of files without reading them, and ignores empty names.
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
