package redact

import (
	"regexp"
	"slices"
	"strings"
)

// maxOperator bounds the text after a name that expressions match, in bytes.
const maxOperator = 64

// operators separate a name from its value. The comparisons of PromQL are followed by a quoted
// value.
var (
	operators   = []string{":=", "=>", "->", "?=", "+=", "%3a", "%3d", `\u003d`, "=", ":"}
	comparisons = []string{"==", "=~", "!=", "!~"}
)

// operator returns the end of the operator after a name, including blanks, and reports
// whether it is a comparison. at is the end of the name. It returns 0 without an operator.
func (s *scanner) operator(at int) (end int, compared bool) {
	at += openingQuote(s.text, at) // which closes the name
	if at < len(s.text) && s.text[at] == ']' {
		at++
	}
	at = s.afterBlanks(at)
	for i, list := range [][]string{comparisons, operators} {
		for _, one := range list {
			if startsWith(s.text[at:], one) {
				return s.afterBlanks(at + len(one)), i == 0
			}
		}
	}
	return 0, false
}

func (s *scanner) afterBlanks(at int) int {
	for at < len(s.text) && (s.text[at] == ' ' || s.text[at] == '\t') {
		at++
	}
	return at
}

// nextWord matches the separator between a flag and its value: blanks, or the quotes and the
// comma between elements of a list.
var nextWord = regexp.MustCompile("^(?:[ \\t]+|\\\\*[\"'][ \\t]*,?[ \\t]*\\\\*[\"'])")

// name hides the value of a secret name. Each name is judged once.
func (s *scanner) name(at int) bool {
	if at < s.named {
		return false
	}
	begin, end := at, at
	for begin > s.done && isNamePart(s.text[begin-1]) {
		begin--
	}
	for end < len(s.text) && isNamePart(s.text[end]) {
		end++
	}
	s.named = end
	if begin > 0 && s.text[begin-1] == '\\' && strings.IndexByte("nrt", s.text[begin]) >= 0 {
		begin++ // the letter of an escaped line end
	}
	name := strings.TrimRight(s.text[begin:end], ".")
	flag := strings.HasPrefix(name, "-")
	bare := strings.TrimLeft(name, "-")
	parameter := begin > 0 && (s.text[begin-1] == '?' || s.text[begin-1] == '&')
	if isKey := strings.EqualFold(bare, "key") && (flag || parameter) || bare == "code" && parameter; !isKey && !Named(bare) {
		return false
	}
	if value, ok := s.value(begin, end, bare, parameter); ok {
		if s.oneWord {
			value.end = len(s.text)
		}
		return s.hide(value, Mark)
	}
	found := nextWord.FindString(s.after(end, maxOperator))
	if !flag || found == "" {
		return false
	}
	value := s.word(begin, end+len(found), false)
	return !isNumber(s.text[value.begin:value.end], bare) && s.hide(value, Mark)
}

// value returns the value of the name at text[begin:end] without its quotes; false if it has
// no value that may be secret.
func (s *scanner) value(begin, end int, name string, parameter bool) (value span, ok bool) {
	text := s.text
	at, compared := s.operator(end)
	if at == 0 {
		return span{}, false
	}
	before := text[end:at]
	sentence := strings.HasSuffix(before, ": ")
	colon := strings.HasSuffix(strings.TrimRight(before, " \t"), ":")
	if begin > 0 && sentence && !isHeader(name) && (text[begin-1] == '/' || text[begin-1] == '@' || s.isThing(begin)) { // a problem of the thing
		return span{}, false
	}
	if rest := s.after(at, 2); strings.HasPrefix(rest, ":") || rest == "//" { // "Secret::new", "token://"
		return span{}, false
	}
	if end := at + len(Mark); strings.HasPrefix(text[at:], Mark) && (end == len(text) || !isNamePart(text[end])) {
		return span{at, end}, true // it is hidden already
	}
	quoted := openingQuote(text, at) > 0
	switch {
	case compared && !quoted:
		return span{}, false
	case quoted:
		value = s.word(begin, at, parameter)
		return value, value.end > value.begin && !isNumber(text[value.begin:value.end], name)
	case strings.ContainsAny(s.after(at, maxOperator), "[{") && composite.MatchString(s.after(at, maxOperator)):
		end := s.closingBracket(at)
		if end < len(text) && isNamePart(text[end]) { // it is a word that begins with a bracket
			end = max(end, s.word(begin, end, parameter).end)
		}
		return span{at, end}, true
	case colon && isHeader(name):
		return s.line(begin, at), true
	case colon && !sentence && aggregated.MatchString(s.after(at, 16)):
		return span{}, false
	}
	value = s.word(begin, at, parameter)
	given := text[value.begin:value.end]
	if isNumber(given, name) || isNothing(given) || sentence && isProse(given) {
		return span{}, false
	}
	return value, value.end > value.begin && !slices.Contains(schemes, strings.ToLower(given))
}

// isThing reports whether a name at a position is the name of a thing in an error, as in
// `fleet "auth": …`.
func (s *scanner) isThing(begin int) bool {
	given := s.before(begin, len("autoscaler \\\""))
	before := strings.TrimRight(given, "\\\"")
	rest, found := strings.CutSuffix(before, " ")
	switch {
	case !found || rest == "":
		return false
	case before != given: // it is quoted, and a word precedes it
		return isAlphanumeric(rest[len(rest)-1])
	}
	return strings.HasSuffix(rest, "autoscaler") || strings.HasSuffix(rest, "fleet") || strings.HasSuffix(rest, "source")
}

// prose are first words of errors after a secret name and a colon: "no access token: dial
// tcp". Any other word there is a secret.
var prose = strings.Fields(`
	a all an and any are bad but cannot connect connection context could denied dial did does empty eof error exit expected expired failed find forbidden get
	got has have he invalid is it line malformed missing must no not of only open optional or parse permission post put query read refused rejected required
	server should source stat string the there timeout too unauthorized unexpected unknown unset use value wait want was when without write wrong x509
`)

func isProse(word string) bool {
	return len(word) <= len("unauthorized") && slices.Contains(prose, strings.ToLower(word))
}

// isNothing reports whether a value is a truth value or null.
func isNothing(value string) bool {
	return len(value) <= len("undefined") && slices.Contains([]string{"true", "false", "null", "nil", "none", "<nil>", "<none>", "undefined"}, strings.ToLower(value))
}

// numeral matches a number with its unit, a pair such as "3/10", and "<unknown>".
var numeral = regexp.MustCompile(`^(?:<unknown>|[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?(?:[mkKMGT]i?|[nuµm]?s|[hd%]|B)?)(?:/(?:<unknown>|[-+]?\d+(?:[.,]\d+)*(?:[mkKMGT]i?|[nuµm]?s|[hd%]|B)?))?$`)

// maxNumber bounds the length of a number, in bytes.
const maxNumber = 40

// isNumber reports whether a value is a number, which is no secret, unless it is a PIN or
// a password of digits.
func isNumber(value, name string) bool {
	if value == "" || len(value) > maxNumber || strings.IndexByte("0123456789+-<", value[0]) < 0 || !numeral.MatchString(value) {
		return false
	}
	const pin = 4
	words := wordsOf(name)
	return len(value) < pin || strings.Trim(value, "0123456789") != "" || len(words) == 0 || !slices.Contains(ownWords, words[len(words)-1])
}

// ownWords end the names of secrets that may consist of digits.
var ownWords = strings.Fields("requirepass password passwd passphrase passcode pass pwd pw pin secret otp totp token")

// aggregated matches the last part of the name of a recording rule: "auth_tokens:rate5m".
var aggregated = regexp.MustCompile(`^(?:rate|irate|increase|sum|avg|count|min|max|ratio|delta|deriv|histogram|p\d\d)(?:[_:\d]|\b)`)

// composite matches the start of an object or a list of JSON, YAML and Go.
var composite = regexp.MustCompile(`^(?:&?(?:map\[[\w.]+\]|\[\d*\])+[\w.]*\{|&[\w.]*\{|\{|(?:map)?\[)`)

// closingBracket returns the end of the object or the list at a position.
func (s *scanner) closingBracket(at int) int {
	depth := 0
	for i := at; i < len(s.text); i++ {
		switch c := s.text[i]; c {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 && !elementType.MatchString(s.after(i+1, maxOperator)) {
				return i + 1
			}
		case '"', '\'':
			escapes := backslashesBefore(s.text[at:], i-at)
			i = closingQuote(s.text, i+1, c, escapes)
			for i < len(s.text) && s.text[i] == '\\' {
				i++
			}
		}
	}
	return len(s.text)
}

// elementType matches the element type of a list of Go and its brace, as in "[]string{".
var elementType = regexp.MustCompile(`^[\w.\[\]]*\{`)

// isHeader reports whether a name is a header whose value is the rest of the line.
func isHeader(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, "authorization") || strings.HasSuffix(lower, "cookie")
}

// line returns the rest of the line, or of the quoted text that the name is in.
func (s *scanner) line(begin, at int) span {
	if begin > 0 && isQuote(s.text[begin-1]) {
		return s.word(begin, at, false)
	}
	end := at
	for end < len(s.text) && s.text[end] != '\n' && s.text[end] != '\r' && !escapedEnd(s.text[end:]) {
		end++
	}
	return span{at, end}
}

// escapedEnd reports whether a text begins with an escaped line end.
func escapedEnd(text string) bool {
	return strings.HasPrefix(text, `\n`) || strings.HasPrefix(text, `\r`)
}

// openingQuote returns the length of the quote at a position with its backslashes, or 0.
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

// word returns the word at a position without its quotes. named is the position of its name:
// a quote before the name also ends the word.
func (s *scanner) word(named, at int, parameter bool) span {
	text := s.text
	if quote := openingQuote(text, at); quote > 0 {
		begin := at + quote
		if triple := strings.Repeat(text[begin-1:begin], 3); strings.HasPrefix(text[at:], triple) { // of TOML
			if end := strings.Index(text[at+3:], triple); end >= 0 {
				return span{at + 3, at + 3 + end}
			}
			return span{at + 3, len(text)}
		}
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
		case isBlank(c), parameter && (c == '&' || c == '#'):
			return span{at, withoutEnd(text, at, end)}
		case isQuote(c):
			if end+1 >= len(text) || !isNamePart(text[end+1]) { // it closes a quote around the word
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

// withoutEnd returns the end of a word without the punctuation of the sentence and the
// backslashes of a quote.
func withoutEnd(text string, begin, end int) int {
	trimmed := begin + len(strings.TrimRight(text[begin:end], `\,;:)]}`))
	if trimmed == begin {
		return end
	}
	return trimmed
}

// closingQuote returns the end of a quoted value: the next quote with the same number of
// backslashes or fewer, or else the end of the text.
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

// backslashesBefore counts the backslashes directly before a position.
func backslashesBefore(text string, at int) int {
	n := 0
	for n < at && text[at-1-n] == '\\' {
		n++
	}
	return n
}

// schemes precede a credential that the rule of its scheme hides.
var schemes = []string{"basic", "bearer", "negotiate"}
