package config

import "bytes"

const (
	// maxSize is the maximum size of all files in bytes. 100,000 autoscalers need about a third of it.
	maxSize = 128 << 20
	// maxLines is the maximum number of lines and of elements of arrays in all files. The parser needs
	// up to 300 bytes for each.
	maxLines = 4_000_000
	// maxDepth is the maximum number of nested arrays, inline tables and parts of dotted keys. The time
	// and the memory of the parser are quadratic in it.
	maxDepth = 32
	// maxErrors is the maximum number of errors in all files. The search for similar keys and the
	// positions of errors take up to 60 microseconds for each.
	maxErrors = 1000
)

// measure counts the lines and the elements of arrays and inline tables. It returns the first line in
// which arrays, inline tables and dotted keys are nested more than maxDepth levels deep, or 0. It reads
// the text once, also if it is not valid TOML.
func measure(text []byte) (lines, deep int) {
	// open contains the depth before each open bracket. Each dot outside of strings is a level until the
	// end of its value.
	var open []int
	depth := 0
	for i := 0; i < len(text); i++ {
		switch c := text[i]; c {
		case '"', '\'':
			i = stringEnd(text, i)
		case '#':
			if end := bytes.IndexByte(text[i:], '\n'); end >= 0 {
				i += end - 1
			} else {
				return lines, 0
			}
		case '[', '{':
			open = append(open, depth)
			depth++
		case '.':
			depth++
		case ']', '}':
			if len(open) > 0 {
				depth, open = open[len(open)-1], open[:len(open)-1]
			}
		case ',', '\n':
			lines++
			if depth = 0; len(open) > 0 {
				depth = open[len(open)-1] + 1
			}
		}
		if depth > maxDepth {
			return lines, 1 + bytes.Count(text[:i], []byte("\n"))
		}
	}
	return lines, 0
}

// stringEnd returns the index of the last byte of the string that begins at an index.
func stringEnd(text []byte, begin int) int {
	quote := text[begin]
	long := bytes.HasPrefix(text[begin:], bytes.Repeat([]byte{quote}, 3))
	i := begin + 1
	if long {
		i = begin + 3
	}
	for ; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && quote == '"':
			i++
		case c == '\n' && !long:
			return i - 1
		case c == quote && !long:
			return i
		case c == quote && bytes.HasPrefix(text[i:], bytes.Repeat([]byte{quote}, 3)):
			return i + 2
		}
	}
	return len(text)
}
