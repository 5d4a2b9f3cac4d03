//go:build !(linux || darwin || freebsd || netbsd || openbsd || dragonfly)

package state

import "os"

// tryLock locks nothing where there is no flock: bbolt's own lock on state.db
// keeps a second daemon out.
func tryLock(*os.File) (bool, error) { return true, nil }

// unlock has nothing to let go of beyond what closing the file does.
func unlock(*os.File) error { return nil }

// outOfRoom says whether a write failed for lack of room, which cannot be told
// here.
func outOfRoom(error) bool { return false }
