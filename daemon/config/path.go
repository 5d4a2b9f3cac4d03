package config

import (
	"strconv"
	"strings"
)

// join appends a key to a path and quotes the key if TOML requires it.
func join(path, key string) string {
	if !isBare(key) {
		key = strconv.Quote(key)
	}
	return under(path, key)
}

// under appends a relative path to another path.
func under(path, key string) string {
	switch {
	case path == "":
		return key
	case key == "":
		return path
	}
	return path + "." + key
}

// element returns the path of an array element.
func element(path string, i int) string { return path + "[" + strconv.Itoa(i) + "]" }

// cutLast splits off the last key of a path and removes its quotes.
func cutLast(path string) (parent, last string) {
	parent = parentOf(path)
	if strings.HasPrefix(path[len(parent):], "[") {
		return parent, path[len(parent):]
	}
	last = strings.TrimPrefix(path[len(parent):], ".")
	if bare, err := strconv.Unquote(last); err == nil {
		last = bare
	}
	return parent, last
}

// parentOf returns the path without its last key or index.
func parentOf(path string) string {
	cut := 0
	for i := 0; i < len(path); i++ {
		switch path[i] {
		case '.', '[':
			cut = i
		case '"': // a quoted key may contain dots and brackets
			for i++; i < len(path) && path[i] != '"'; i++ {
				if path[i] == '\\' {
					i++
				}
			}
		}
	}
	return path[:cut]
}

// isWithin reports whether path equals outer or is below it.
func isWithin(path, outer string) bool {
	rest, ok := strings.CutPrefix(path, outer)
	return ok && (rest == "" || outer == "" || rest[0] == '.' || rest[0] == '[')
}

// isBare reports whether a TOML key needs no quotes.
func isBare(key string) bool {
	return key != "" && !strings.ContainsFunc(key, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
	})
}
