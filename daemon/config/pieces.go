package config

import (
	"bytes"
	"regexp"
	"slices"

	"github.com/BurntSushi/toml"
)

// pieceSize is about how long the pieces of a long document are, in bytes.
const pieceSize = 64 << 10

// autoscalerHeader is where a document may be cut: before the table of an autoscaler
// whose name needs no quotes.
var autoscalerHeader = regexp.MustCompile(`(?m)^\[` + autoscalersKey + `\.[-\w]+\]`)

// parseTOML parses a document. Those of many autoscalers are parsed in pieces, because
// the parser keeps every key with its place until its end, which costs more than the
// values. Whatever is not plainly the same as a whole is parsed as a whole, and so
// is every document with a mistake.
func parseTOML(text []byte) (map[string]any, error) {
	if root := parsePieces(text, pieceSize); root != nil {
		return root, nil
	}
	var root map[string]any
	err := toml.Unmarshal(text, &root)
	return root, err
}

// parsePieces parses a document cut before tables of autoscalers, into pieces of at
// least a size, and returns nil where that may come to something else than the whole. A cut
// inside of a string or an array leaves one without an end, and so a mistake, in the piece
// before.
func parsePieces(text []byte, size int) map[string]any {
	root, autoscalers := map[string]any{}, map[string]any{}
	for at, end := 0, 0; at < len(text); at = end {
		end = nextCut(text, at, size)
		if end-at == len(text) {
			return nil // there is nothing to cut
		}
		var piece map[string]any
		meta, err := toml.Decode(string(text[at:end]), &piece)
		if err != nil {
			return nil
		}
		opened := slices.ContainsFunc(meta.Keys(), func(key toml.Key) bool { return len(key) == 1 && key[0] == autoscalersKey })
		given, present := piece[autoscalersKey]
		named, isTable := given.(map[string]any)
		if opened || present != isTable || present != startsAutoscaler(text[at:end]) {
			return nil
		}
		delete(piece, autoscalersKey)
		if !addAll(root, piece) || !addAll(autoscalers, named) {
			return nil
		}
	}
	if len(autoscalers) == 0 {
		return nil
	}
	root[autoscalersKey] = autoscalers
	return root
}

// startsAutoscaler reports whether a piece begins with the table of an autoscaler.
func startsAutoscaler(piece []byte) bool {
	at := autoscalerHeader.FindIndex(piece[:min(len(piece), len(autoscalersKey)+300)])
	return at != nil && at[0] == 0
}

// addAll adds tables to others, and reports whether each is a new one.
func addAll(to, from map[string]any) bool {
	for name, table := range from {
		if _, twice := to[name]; twice {
			return false
		}
		to[name] = table
	}
	return true
}

// nextCut returns where the piece ends that begins at an offset: one of autoscalers has a
// size at least, and one of anything else ends before the first of them.
func nextCut(text []byte, at, size int) int {
	from := at
	if startsAutoscaler(text[at:]) {
		from = min(at+size, len(text))
	}
	line := bytes.IndexByte(text[from:], '\n')
	if line < 0 {
		return len(text)
	}
	from += line + 1
	if cut := autoscalerHeader.FindIndex(text[from:]); cut != nil {
		return from + cut[0]
	}
	return len(text)
}
