// Package redact hides what may be secret in whatever hpad shows: its
// configuration, the responses of its API, its log and its errors. There is one rule
// for all of them, and it errs on hiding. It goes by names ("DB_PASSWORD=…",
// "--token …", {api_key="…"}), by places (credentials of a URL, what follows "-p"
// or "Bearer") and by the shapes of well-known tokens. Numbers, and the names of metrics
// and labels, are not secrets. A secret without a name, as in "echo hunter2", is not
// recognized.
package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mark replaces a secret.
const Mark = "<redacted>"

// maxText bounds the length of a shown text, in bytes. A longer text is cut.
const maxText = 1 << 20

// Text returns a sentence, a line of a shell, a query, a URL or any other text without
// secrets. Its time is linear in the length of the text.
func Text(text string) string { return hide(text, false) }

// hide replaces what may be secret. Of a text that is a word of its own, as one
// argument of a command, everything after a secret name is hidden: it has no
// further words.
func hide(text string, oneWord bool) string {
	cut := ""
	if len(text) > maxText {
		text, cut = strings.ToValidUTF8(text[:maxText], ""), "…"
	}
	s := scanner{text: text, oneWord: oneWord}
	s.scan()
	return s.shown() + cut
}

// span is a part of a text.
type span struct{ begin, end int }

// hidden is a part of a text with its replacement.
type hidden struct {
	span
	mark string
}

// scanner reads a text once, from left to right, and tries the rules of each trigger that it
// finds. To keep the time linear, a rule hides all that it reads, or reads a bounded part, or
// stores the end of the part that it has read.
type scanner struct {
	text    string
	oneWord bool
	hidden  []hidden
	// done is the end of the last part that is hidden.
	done int
	// named is the end of the last name that was checked, searched the end of the last word
	// that was searched for credentials before "@", and wordy the end of the last word that
	// begins like a token and is a name.
	named, searched, wordy int
}

func (s *scanner) scan() {
	hash := uint16(0)
	for i := 0; i < len(s.text); i++ {
		hash = shift(hash, s.text[i])
		found := s.text[i] == '@' && s.credentials(i)
		if !found && triggers.has(hash) && i-2 >= s.done {
			found = slices.ContainsFunc(triggers.words[hash], func(t trigger) bool {
				return startsWith(s.text[i-2:], t.word) && t.rule(s, i-2)
			})
		}
		if found && s.done > i {
			i = s.done - 1
		}
	}
}

// hide has a part of the text hidden, and reports whether there is any of it.
func (s *scanner) hide(part span, mark string) bool {
	if part.end <= part.begin {
		return false
	}
	s.hidden = append(s.hidden, hidden{part, mark})
	s.done = max(s.done, part.end)
	return true
}

func (s *scanner) shown() string {
	if len(s.hidden) == 0 {
		return s.text
	}
	slices.SortFunc(s.hidden, func(a, b hidden) int { return cmp.Compare(a.begin, b.begin) })
	var shown strings.Builder
	done := 0
	for _, h := range s.hidden {
		if h.begin >= done {
			shown.WriteString(s.text[done:h.begin])
			shown.WriteString(h.mark)
		}
		done = max(done, h.end)
	}
	shown.WriteString(s.text[done:])
	return shown.String()
}

// after returns at most n bytes of the text after a position, and before at most n bytes
// before it. Expressions match only such parts, because their time depends on the whole input.
func (s *scanner) after(at, n int) string { return s.text[at:min(len(s.text), at+n)] }

func (s *scanner) before(at, n int) string { return s.text[max(0, at-n):at] }

// isNamePart reports whether a character may be part of a name.
func isNamePart(c byte) bool { return isTokenPart(c) || c == '.' || c >= utf8.RuneSelf }

func isTokenPart(c byte) bool { return isAlphanumeric(c) || c == '_' || c == '-' }

func isAlphanumeric(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// wordEnd returns the position of the next blank or quote.
func (s *scanner) wordEnd(at int) int {
	for at < len(s.text) && !isBlank(s.text[at]) && s.text[at] != '"' && s.text[at] != '\'' {
		at++
	}
	return at
}

// address hides the credentials of a URL at its "://". Passwords are often not escaped, so the
// credentials are everything up to the last "@" of the word.
func (s *scanner) address(at int) bool {
	begin := at + len("://")
	if begin <= s.searched {
		return false
	}
	s.searched = s.wordEnd(begin)
	last := lastAt(s.text[begin:s.searched])
	if last < 0 || strings.HasSuffix(s.before(at, 4), "ssh") && isName(s.text[begin:begin+last]) {
		return false // ssh accepts only a user name
	}
	end := begin + last
	word := strings.ToLower(s.text[begin:end])
	if strings.ContainsAny(word, "?;") && strings.Contains(word, "=") || strings.Contains(word, "hook") || strings.Contains(word, "/bot") {
		end = s.searched // the "@" may be in a parameter, or in the secret part of a webhook
	}
	return s.hide(span{begin, end}, "redacted")
}

// digest matches the digest after the "@" in the name of an image.
var digest = regexp.MustCompile(`^sha\d+(?:\W|$)`)

// lastAt returns the position of the last "@" of a word that does not precede a digest, or -1.
func lastAt(word string) int {
	last := strings.LastIndexByte(word, '@')
	if last >= 0 && digest.MatchString(word[last+1:min(len(word), last+16)]) {
		last = strings.LastIndexByte(word[:last], '@')
	}
	return last
}

func isName(text string) bool {
	return !strings.ContainsFunc(text, func(r rune) bool { return r >= utf8.RuneSelf || !isNamePart(byte(r)) })
}

// instant matches the time after a subquery of PromQL: "[5m:1m]@1609746000".
var instant = regexp.MustCompile(`^(?:\d+|start\(|end\()`)

// credentials hides the password of an address without a scheme at its "@", as in
// "user:password@host".
func (s *scanner) credentials(at int) bool {
	if at < s.searched {
		return false
	}
	begin := at
	for begin > s.done && !isBlank(s.text[begin-1]) && s.text[begin-1] != '"' && s.text[begin-1] != '\'' {
		begin--
	}
	s.searched = s.wordEnd(at)
	last := at + lastAt(s.text[at:s.searched])
	if last < at || last+1 == s.searched || !isTokenPart(s.text[last+1]) && !strings.ContainsRune("([.", rune(s.text[last+1])) {
		return false
	}
	if last > 0 && s.text[last-1] == ']' && instant.MatchString(s.after(last+1, 16)) {
		return false
	}
	for colon := begin + 1; colon < last-1; colon++ {
		if s.text[colon] == ':' && !strings.ContainsRune("/:@([{,=", rune(s.text[colon-1])) {
			return !strings.HasPrefix(s.text[colon:], "://") && s.hide(span{colon + 1, last}, Mark)
		}
	}
	return false
}

// scheme hides the credential that follows its scheme without the name of a header.
func (s *scanner) scheme(at int) bool {
	end := at
	for end < len(s.text) && isAlphanumeric(s.text[end]) {
		end++
	}
	begin := end
	for begin < len(s.text) && (s.text[begin] == ' ' || s.text[begin] == '\t') {
		begin++
	}
	if begin == end || at > 0 && isAlphanumeric(s.text[at-1]) {
		return false
	}
	value := span{begin, begin}
	for value.end < len(s.text) && isCredentialPart(s.text[value.end]) {
		value.end++
	}
	given := s.after(begin, value.end-begin)
	word := strings.ToLower(strings.TrimRight(given, "."))
	switch {
	case isProse(word), strings.HasPrefix(word, "auth"), strings.HasPrefix(word, "token"), strings.HasPrefix(word, "credential"):
		return false
	case lower(s.text[at]) != 'b' || lower(s.text[at+1]) == 'a': // "basic" is also a word of prose
		if len(given) < 8 || word == given && !strings.ContainsAny(given, "0123456789+/=") {
			return false
		}
	}
	return s.hide(value, Mark)
}

func isCredentialPart(c byte) bool { return isTokenPart(c) || strings.IndexByte("+/=.~", c) >= 0 }
