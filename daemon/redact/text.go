// Package redact hides possible secrets in everything that hpad shows: its configuration, API
// responses, logs and errors. The same rules apply everywhere. In doubt, they hide a value.
//
// Secrets are recognized by names ("DB_PASSWORD=…", "--token …", {api_key="…"}), by places
// (credentials in a URL, values after "-p" or "Bearer") and by the shapes of well-known tokens.
// Numbers and the names of metrics and labels are not secrets. A secret without a name, as in "echo
// hunter2", is not recognized.
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

// maxText is the maximum length of a shown text in bytes. Longer texts are cut.
const maxText = 1 << 20

// Text removes secrets from any text, such as a sentence, a shell command, a query or a URL. The
// time is linear in the length of the text.
func Text(text string) string { return hide(text, false) }

// hide replaces possible secrets. If oneWord is set, the text is a single word, such as one
// argument of a command, and everything after a secret name is hidden.
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

// hidden is a part of a text and its replacement.
type hidden struct {
	span
	mark string
}

// scanner reads a text once from left to right and tries the rules for each trigger that it finds.
// To keep the time linear, each rule either hides everything that it reads, reads a part of bounded
// length, or stores the end of the part that it has read.
type scanner struct {
	text    string
	oneWord bool
	hidden  []hidden
	// done is the end of the last hidden part.
	done int
	// named is the end of the last name that was checked. searched is the end of the last word that
	// was searched for credentials before "@". wordy is the end of the last word that begins like a
	// token but is a name.
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

// hide marks a part of the text as hidden. It returns false if the part is empty.
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

// after returns at most n bytes after a position, and before returns at most n bytes before it.
// Regular expressions match only such parts, because their time depends on the whole input.
func (s *scanner) after(at, n int) string { return s.text[at:min(len(s.text), at+n)] }

func (s *scanner) before(at, n int) string { return s.text[max(0, at-n):at] }

// isNamePart reports whether a name can contain a character.
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

// address hides the credentials in a URL, given the position of its "://". Passwords are often not
// escaped, so the credentials extend to the last "@" in the word.
func (s *scanner) address(at int) bool {
	begin := at + len("://")
	if begin <= s.searched {
		return false
	}
	s.searched = s.wordEnd(begin)
	last := lastAt(s.text[begin:s.searched])
	if last < 0 || strings.HasSuffix(s.before(at, 4), "ssh") && isName(s.text[begin:begin+last]) {
		return false // ssh URLs contain only a user name
	}
	end := begin + last
	word := strings.ToLower(s.text[begin:end])
	if strings.ContainsAny(word, "?;") && strings.Contains(word, "=") || strings.Contains(word, "hook") || strings.Contains(word, "/bot") {
		end = s.searched // the "@" may be in a parameter, or in the secret part of a webhook
	}
	return s.hide(span{begin, end}, "redacted")
}

// digest matches the digest after the "@" in an image name.
var digest = regexp.MustCompile(`^sha\d+(?:\W|$)`)

// lastAt returns the position of the last "@" in a word that does not precede a digest, or -1.
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

// instant matches the time after a PromQL subquery: "[5m:1m]@1609746000".
var instant = regexp.MustCompile(`^(?:\d+|start\(|end\()`)

// credentials hides the password in an address without a scheme, such as "user:password@host",
// given the position of its "@".
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

// scheme hides the credential after an authentication scheme that does not follow a header name.
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
	case lower(s.text[at]) != 'b' || lower(s.text[at+1]) == 'a': // "basic" is also a common word
		if len(given) < 8 || word == given && !strings.ContainsAny(given, "0123456789+/=") {
			return false
		}
	}
	return s.hide(value, Mark)
}

func isCredentialPart(c byte) bool { return isTokenPart(c) || strings.IndexByte("+/=.~", c) >= 0 }
