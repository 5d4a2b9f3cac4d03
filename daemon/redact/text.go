package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Mark stands for what is not shown.
const Mark = "<redacted>"

// Text returns a text with what may be secret replaced: a sentence, a line of a
// shell, a query or a URL. A text with nothing to hide is returned as it is.
func Text(text string) string { return hide(text, false) }

// hide replaces what may be secret. Of a text that is a word of its own, as one
// argument of a command, everything after a secret name is hidden: it has no
// further words.
func hide(text string, oneWord bool) string {
	if !inDoubt(text) {
		return text
	}
	text = hideShapes(text)
	text = hideNamed(text, oneWord)
	text = hideURLs(text)
	text = hideFlags(text)
	return hideSchemes(text)
}

// shapes are those of well-known tokens and of private keys, whose end may be cut
// off.
const shapes = `eyJ[\w-]{8,}\.[\w-]+(?:\.[\w-]*)*` +
	`|\b(?:gh[opsur]_\w{16,}|github_pat_\w{16,}|glpat-[\w-]{16,}|xox[a-z]-[\w-]{10,}|A[KS]IA[0-9A-Z]{16}|AIza[\w-]{30,}|sk[-_][\w-]{16,}|hvs\.[\w-]{16,})` +
	`|hooks\.slack\.com/[^\s"']+|/api/webhooks/[^\s"']+|/bot\d+:[\w-]+` +
	`|-----BEGIN [A-Z ]*PRIVATE KEY-----(?:[\s\S]*?-----END [A-Z ]*PRIVATE KEY-----|[\s\S]*)`

var shape = regexp.MustCompile(shapes)

func hideShapes(text string) string { return shape.ReplaceAllLiteralString(text, Mark) }

// What stands before an "@" may be credentials, in which people do not always
// escape what a URL must have escaped.
var (
	urlCredentials = regexp.MustCompile(`([A-Za-z][A-Za-z0-9+.-]*://)[^\s"']*@(sha\d+:)?`)
	// sshUser matches what has no credentials: ssh takes none but the user's name there.
	sshUser = regexp.MustCompile(`^ssh://[\w.-]+@$`)
	// dsnCredentials are those of an address without a scheme: "user:password@host".
	dsnCredentials = regexp.MustCompile(`([^\s"'/:@(\[{,=]+:)([^\s"']+)@([\w(\[.-]+)`)
	// subquery matches what such an address is not: "[5m:1m]@1609746000".
	subquery = regexp.MustCompile(`^\d\w*\]@(?:\d+|start\(|end\()$`)
)

// hideURLs replaces the credentials in URLs.
func hideURLs(text string) string {
	if !strings.Contains(text, "@") {
		return text
	}
	text = urlCredentials.ReplaceAllStringFunc(text, func(found string) string {
		parts := urlCredentials.FindStringSubmatch(found)
		if parts[2] != "" || sshUser.MatchString(found) {
			return found
		}
		return parts[1] + "redacted@"
	})
	return dsnCredentials.ReplaceAllStringFunc(text, func(found string) string {
		parts := dsnCredentials.FindStringSubmatch(found)
		if digest.MatchString(parts[3]) || strings.HasPrefix(parts[2], "//") || subquery.MatchString(parts[2]+"@"+parts[3]) {
			return found
		}
		return parts[1] + Mark + "@" + parts[3]
	})
}

// digest matches what follows the "@" in the name of an image.
var digest = regexp.MustCompile(`^sha\d+$`)

// nameInDoubt matches a part of every name that is secret.
var nameInDoubt = regexp.MustCompile(`(?i)pass|pwd|pw|secret|token|cred|auth|key|sig|sas|jwt|cookie|bearer|otp|psk|sid|dsn`)

// hideNamed replaces the values of what has a secret name.
func hideNamed(text string, oneWord bool) string {
	var shown strings.Builder
	done := 0
	for at := 0; at < len(text); {
		found := nameInDoubt.FindStringIndex(text[at:])
		if found == nil {
			break
		}
		begin, end := at+found[0], at+found[1]
		for begin > done && isNamePart(text[begin-1]) {
			begin--
		}
		for end < len(text) && isNamePart(text[end]) {
			end++
		}
		at = end
		value, ok := valueAfter(text, begin, end)
		if !ok {
			continue
		}
		if oneWord {
			value.end = len(text)
		}
		shown.WriteString(text[done:value.begin])
		shown.WriteString(Mark)
		done, at = value.end, value.end
	}
	shown.WriteString(text[done:])
	return shown.String()
}

// isNamePart reports whether a character may be part of a name.
func isNamePart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c >= utf8.RuneSelf
}

// span is a part of a text.
type span struct{ begin, end int }

// operator matches what parts a name from its value. The comparisons of PromQL are
// followed by a quoted value.
var operator = regexp.MustCompile("^(\\\\*[\"'`])?\\]?[ \\t]*(?::=|=>|(==|=~|!=|!~)|=|:)[ \\t]*")

// nextWord matches what parts a flag from its value: blanks, or what is between
// the quoted elements of a list.
var nextWord = regexp.MustCompile("^(?:[ \\t]+|\\\\*[\"'][ \\t]*,?[ \\t]*\\\\*[\"'])")

// valueAfter returns where the value of the name at text[begin:end] is, without its
// quotes; false when the name is not secret or has no value.
func valueAfter(text string, begin, end int) (value span, ok bool) {
	name := strings.TrimRight(text[begin:end], ".")
	flag := strings.HasPrefix(name, "-")
	parameter := begin > 0 && (text[begin-1] == '?' || text[begin-1] == '&')
	bare := strings.TrimLeft(name, "-")
	key := bare == "key" && (flag || parameter)
	if !key && !Named(bare) {
		return span{}, false
	}
	rest := text[end:]
	if found := operator.FindStringSubmatchIndex(rest); found != nil {
		compared := found[4] >= 0
		at := end + found[1]
		if begin > 0 && strings.HasSuffix(text[:at], ": ") && (text[begin-1] == '/' || text[begin-1] == '@' || isThing(text[:begin])) { // what is wrong with it
			return span{}, false
		}
		if strings.HasPrefix(text[at:], ":") || strings.HasPrefix(text[at:], "//") { // "Secret::new", "token://"
			return span{}, false
		}
		quoted := openingQuote(text, at) > 0
		if compared && !quoted {
			return span{}, false
		}
		value = wordAt(text, begin, at, parameter)
		if !quoted && strings.HasSuffix(text[:at], ": ") && slices.Contains(prose, strings.ToLower(text[value.begin:value.end])) {
			return span{}, false
		}
		value.end = furtherWords(text, name, value)
		return value, value.end > value.begin
	}
	if !flag {
		return span{}, false
	}
	found := nextWord.FindStringIndex(rest)
	if found == nil {
		return span{}, false
	}
	value = wordAt(text, begin, end+found[1], false)
	return value, value.end > value.begin
}

// thing matches what is before the name of something in an error, as `fleet "`.
var thing = regexp.MustCompile("(?:^|[^\\w-])(?:autoscaler|container|directory|fleet|group|instance|job|namespace|network|node|project|service|source|target|task|unit|volume) \\\\*\"$")

// isThing reports whether a name that follows is that of a thing which is named to
// say something of it, and not of a value.
func isThing(before string) bool { return thing.MatchString(before) }

// prose are words that begin what is said of a thing, as "no access token: dial tcp":
// what is hidden after a secret name and a colon otherwise.
var prose = []string{
	"a", "an", "cannot", "connect", "connection", "context", "dial", "eof", "exit", "expected", "failed", "find", "forbidden", "get", "invalid", "is", "it",
	"must", "no", "not", "open", "parse", "permission", "post", "put", "query", "read", "refused", "server", "stat", "the", "there", "unexpected", "unknown",
	"unauthorized", "use", "wait", "write", "x509",
}

// openingQuote returns how long the quote at a place is, with the backslashes that
// escape it; 0 when there is none.
func openingQuote(text string, at int) int {
	i := at
	for i < len(text) && text[i] == '\\' {
		i++
	}
	if i < len(text) && isQuote(text[i]) {
		return i - at + 1
	}
	return 0
}

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }

// wordAt returns where the word that begins at a place is, without its quotes.
// Named is where what it belongs to begins: a quote before that ends the word too.
func wordAt(text string, named, at int, parameter bool) span {
	if quote := openingQuote(text, at); quote > 0 {
		begin := at + quote
		return span{begin, closingQuote(text, begin, text[begin-1], quote-1)}
	}
	var around byte // the quote that the whole is in
	if named > 0 && isQuote(text[named-1]) {
		around = text[named-1]
	} else if at > 0 && isQuote(text[at-1]) {
		around = text[at-1]
	}
	if around != 0 {
		return span{at, closingQuote(text, at, around, backslashesBefore(text, max(named-1, 0)))}
	}
	end := at
	for end < len(text) {
		c := text[end]
		switch {
		case c == ' ' || c == '\t' || c == '\n' || c == '\r', parameter && (c == '&' || c == '#'):
			return span{at, withoutEnd(text, at, end)}
		case isQuote(c):
			if end+1 >= len(text) || !isNamePart(text[end+1]) { // it ends what the word is in
				return span{at, withoutEnd(text, at, end)}
			}
			end = closingQuote(text, end+1, c, backslashesBefore(text, end))
		}
		if end < len(text) {
			end++
		}
	}
	return span{at, withoutEnd(text, at, end)}
}

// withoutEnd returns the end of a word without the punctuation that the text around
// it may have put there, and the backslashes of a quote.
func withoutEnd(text string, begin, end int) int {
	trimmed := begin + len(strings.TrimRight(text[begin:end], `\,;:)]}`))
	if trimmed == begin {
		return end
	}
	return trimmed
}

// closingQuote returns where a quoted value ends: at its quote with as many
// backslashes as the opening one has, or at a quote with fewer of them, which is of
// the text around; at the end of the text where there is none.
func closingQuote(text string, begin int, quote byte, backslashes int) int {
	for i := begin; i < len(text); i++ {
		if text[i] == quote {
			if found := backslashesBefore(text[begin:], i-begin); found <= backslashes {
				return i - found
			}
		}
	}
	return len(text)
}

// backslashesBefore counts the backslashes just before a place.
func backslashesBefore(text string, at int) int {
	n := 0
	for n < at && text[at-1-n] == '\\' {
		n++
	}
	return n
}

// furtherWords returns where a value ends that may have more than one word: a
// credential after its scheme, and cookies.
func furtherWords(text, name string, value span) int {
	end := value.end
	if end < len(text) && isQuote(text[end]) {
		return end
	}
	first := strings.ToLower(text[value.begin:end])
	further := scheme.MatchString(first)
	cookie := strings.Contains(strings.ToLower(name), "cookie")
	for further || cookie && end < len(text) && text[end] == ';' {
		further = false
		next := end
		for next < len(text) && (text[next] == ' ' || text[next] == '\t' || text[next] == ';') {
			next++
		}
		if next == end || next == len(text) {
			break
		}
		end = wordAt(text, next, next, false).end
	}
	return end
}

// scheme matches a word that says of what kind the credential after it is.
var scheme = regexp.MustCompile(`^(?:basic|bearer|token|digest|negotiate|apikey|key)$`)

// credential matches the schemes of credentials that stand without the name of a
// header. "basic" is also a word of prose.
var credential = regexp.MustCompile(`(?i)(\b(?:bearer[ \t]+|basic[ \t]+))([A-Za-z0-9+/=._~-]+)`)

func hideSchemes(text string) string {
	return credential.ReplaceAllStringFunc(text, func(found string) string {
		parts := credential.FindStringSubmatch(found)
		prose := strings.ToLower(strings.TrimRight(parts[2], "."))
		switch {
		case strings.HasPrefix(prose, "auth"), strings.HasPrefix(prose, "token"), strings.HasPrefix(prose, "credential"):
			return found
		case parts[1][1] == 'a' || parts[1][1] == 'A': // basic
			if len(parts[2]) < 8 || prose == parts[2] && !strings.ContainsAny(parts[2], "0123456789+/=") {
				return found
			}
		}
		return parts[1] + Mark
	})
}
