package redact

import (
	"cmp"
	"regexp"
	"slices"
	"strings"
)

// maxOperator limits the text after a name that regular expressions read, in bytes.
const maxOperator = 64

// operators separate a name from its value. comparisons are PromQL operators, which are followed by
// a quoted value.
var (
	operators   = []string{":=", "=>", "->", "?=", "+=", "%3a", "%3d", `\u003d`, "=", ":"}
	comparisons = []string{"==", "=~", "!=", "!~"}
	fillers     = []string{" provided", " given", " supplied", " value", " header"}
)

// operator returns the end of the operator and blanks that follow a name, and reports whether the
// operator is a comparison. at is the end of the name. It returns 0 if there is no operator.
func (s *scanner) operator(at int) (end int, compared bool) {
	at += openingQuote(s.text, at) // the quote that closes the name
	if at < len(s.text) && s.text[at] == ']' {
		at++
	}
	for _, filler := range fillers {
		if startsWith(s.text[at:], filler) {
			at += len(filler)
		}
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

// nextWord matches the text between a flag and its value: blanks, or the quotes and the comma
// between elements of a list.
var nextWord = regexp.MustCompile("^(?:[ \\t]+|\\\\*[\"'][ \\t]*,?[ \\t]*\\\\*[\"'])")

// name hides the value of a secret name. It checks each name once.
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
		begin++ // skip the letter of an escaped line end
	}
	name := strings.TrimRight(s.text[begin:end], ".")
	flag := strings.HasPrefix(name, "-")
	bare := strings.TrimLeft(name, "-")
	parameter := begin > 0 && (s.text[begin-1] == '?' || s.text[begin-1] == '&')
	isKey := strings.EqualFold(bare, "key") && (flag || parameter || s.isKeyKind(begin)) || parameter && bare == "code"
	if !isKey && !Named(bare) {
		return false
	}
	if begin > 0 && s.text[begin-1] == '<' && end < len(s.text) && s.text[end] == '>' { // an XML element
		value := span{end + 1, end + 1}
		for value.end < len(s.text) && s.text[value.end] != '<' {
			value.end++
		}
		return s.hide(value, Mark)
	}
	if value, ok := s.value(begin, end, bare, parameter); ok {
		if s.oneWord {
			value.end = len(s.text)
		}
		return s.hide(value, Mark)
	}
	if flag {
		found := nextWord.FindString(s.after(end, maxOperator))
		if found == "" {
			return false
		}
		value := s.word(begin, end+len(found), false)
		return !isNumber(s.text[value.begin:value.end], bare) && s.hide(value, Mark)
	}
	return s.pair(begin, end) || s.bare(begin, end, bare)
}

// isKeyKind reports whether the word before a position is one of keyKinds, as in "API key".
func (s *scanner) isKeyKind(at int) bool {
	words := strings.Fields(strings.ToLower(s.before(at, 16)))
	return len(words) > 0 && s.text[at-1] == ' ' && slices.Contains(keyKinds, words[len(words)-1])
}

// value returns the value of the name at text[begin:end] without quotes. It returns false if the
// name has no value that may be secret.
func (s *scanner) value(begin, end int, name string, parameter bool) (value span, ok bool) {
	text := s.text
	at, compared := s.operator(end)
	if at == 0 {
		return span{}, false
	}
	before := text[end:at]
	sentence := strings.HasSuffix(before, ": ")
	colon := strings.HasSuffix(strings.TrimRight(before, " \t"), ":")
	if begin > 0 && sentence && !isHeader(name) && (text[begin-1] == '/' || text[begin-1] == '@' || s.isThing(begin)) { // the text is an error about the named thing
		return span{}, false
	}
	if rest := s.after(at, 2); strings.HasPrefix(rest, ":") || rest == "//" { // "Secret::new", "token://"
		return span{}, false
	}
	if end := at + len(Mark); strings.HasPrefix(text[at:], Mark) && (end == len(text) || !isNamePart(text[end])) {
		return span{at, end}, true // the value is already hidden
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
		if end < len(text) && isNamePart(text[end]) { // the bracket begins a longer word
			end = max(end, s.word(begin, end, parameter).end)
		}
		return span{at, end}, true
	case colon && isHeader(name):
		return s.line(begin, at), true
	case colon && !parameter && s.isLineEnd(at):
		return s.block(begin, end, at)
	case strings.HasPrefix(s.after(at, 2), "<<"):
		return s.heredoc(at), true
	case colon && !sentence && aggregated.MatchString(s.after(at, 16)):
		return span{}, false
	}
	value = s.word(begin, at, parameter)
	given := text[value.begin:value.end]
	if isNumber(given, name) || isNothing(given) || sentence && isProse(given) {
		return span{}, false
	}
	value.end = s.furtherWords(value)
	return value, value.end > value.begin
}

// isThing reports whether the name of a thing in an error begins at a position, as in
// `fleet "auth": …`.
func (s *scanner) isThing(begin int) bool {
	const longest = 24
	given := s.before(begin, longest)
	before := strings.TrimRight(given, "\\\"")
	rest, found := strings.CutSuffix(before, " ")
	word := rest[strings.LastIndexFunc(rest, func(r rune) bool { return r < 'a' || r > 'z' })+1:]
	return found && (slices.Contains(ownThings, word) || before != given && slices.Contains(things, word))
}

// things precede quoted names in errors. ownThings also precede unquoted names.
var (
	things    = strings.Fields("container directory group instance job metric namespace network node project service target task unit volume")
	ownThings = []string{"autoscaler", "fleet", "source"}
)

// prose lists words that can begin an error after a secret name and a colon, as in "no access
// token: dial tcp". Any other word there is treated as a secret.
var prose = strings.Fields(`
	a all an and any are bad but cannot connect connection context could denied dial did does empty eof error exit expected expired failed find forbidden get
	got has have he invalid is it line malformed missing must no not of only open optional or parse permission post put query read refused rejected required
	server should source stat string the there timeout too unauthorized unexpected unknown unset use value wait want was when without write wrong x509
`)

func isProse(word string) bool {
	return len(word) <= len("unauthorized") && slices.Contains(prose, strings.ToLower(word))
}

// isNothing reports whether a value is a boolean or null.
func isNothing(value string) bool {
	return len(value) <= len("undefined") && slices.Contains([]string{"true", "false", "null", "nil", "none", "<nil>", "<none>", "undefined"}, strings.ToLower(value))
}

// numeral matches a number with an optional unit, a pair such as "3/10", and "<unknown>".
var numeral = regexp.MustCompile(`^(?:<unknown>|[-+]?\d+(?:[.,]\d+)*(?:e[-+]?\d+)?(?:[mkKMGT]i?|[nuµm]?s|[hd%]|B)?)(?:/(?:<unknown>|[-+]?\d+(?:[.,]\d+)*(?:[mkKMGT]i?|[nuµm]?s|[hd%]|B)?))?$`)

// maxNumber is the maximum length of a number in bytes.
const maxNumber = 40

// isNumber reports whether a value is a number. Numbers are not secret, but PINs and passwords of
// digits do not count as numbers here.
func isNumber(value, name string) bool {
	if value == "" || len(value) > maxNumber || strings.IndexByte("0123456789+-<", value[0]) < 0 || !numeral.MatchString(value) {
		return false
	}
	const pin = 4
	words := wordsOf(name)
	return len(value) < pin || strings.Trim(value, "0123456789") != "" || len(words) == 0 || !slices.Contains(ownWords, words[len(words)-1])
}

// ownWords lists the last words in names of secrets that may consist of digits.
var ownWords = strings.Fields("requirepass password passwd passphrase passcode pass pwd pw pin secret otp totp token")

// aggregated matches the last part of a recording rule's name, such as "auth_tokens:rate5m".
var aggregated = regexp.MustCompile(`^(?:rate|irate|increase|sum|avg|count|min|max|ratio|delta|deriv|histogram|p\d\d)(?:[_:\d]|\b)`)

// composite matches the start of an object or a list in JSON, YAML or Go syntax.
var composite = regexp.MustCompile(`^(?:&?(?:map\[[\w.]+\]|\[\d*\])+[\w.]*\{|&[\w.]*\{|\{|(?:map)?\[)`)

// closingBracket returns the end of the object or list that begins at a position.
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

// elementType matches the element type of a Go slice and its brace, as in "[]string{".
var elementType = regexp.MustCompile(`^[\w.\[\]]*\{`)

// isHeader reports whether a name is a header whose value is the rest of the line.
func isHeader(name string) bool {
	lower := strings.ToLower(name)
	return strings.HasSuffix(lower, "authorization") || strings.HasSuffix(lower, "cookie")
}

// line returns the rest of the line. If the name is inside a quoted text, it returns the rest of
// that text.
func (s *scanner) line(begin, at int) span {
	if begin > 0 && isQuote(s.text[begin-1]) {
		return s.word(begin, at, false)
	}
	end := at
	for end < len(s.text) && s.lineEnd(end) == 0 {
		end++
	}
	return span{at, end}
}

// lineEnd returns the length of the line end at a position, plain or escaped, or 0 if there is
// none.
func (s *scanner) lineEnd(at int) int {
	n := 0
	for at+n < len(s.text) && (s.text[at+n] == '\n' || s.text[at+n] == '\r') {
		n++
	}
	if n > 0 || at+1 >= len(s.text) || s.text[at] != '\\' {
		return n
	}
	for n < maxOperator && at+n < len(s.text) && s.text[at+n] == '\\' {
		n++
	}
	if at+n < len(s.text) && (s.text[at+n] == 'n' || s.text[at+n] == 'r') {
		return n + 1
	}
	return 0
}

// blockMark matches the indicator of a YAML block.
var blockMark = regexp.MustCompile(`^[|>][-+0-9]*[ \t]*`)

func (s *scanner) isLineEnd(at int) bool {
	return s.lineEnd(at+len(blockMark.FindString(s.after(at, 16)))) > 0
}

// block returns the lines that belong to a YAML key: lines with more indentation, and list
// elements.
func (s *scanner) block(begin, end, at int) (value span, ok bool) {
	first := begin
	for first > 0 && strings.IndexByte(" \t-\"'", s.text[first-1]) >= 0 {
		first--
	}
	isText := begin > 0 && isQuote(s.text[begin-1]) && !isQuote(s.text[end]) // a quoted text that begins with the name
	if before := s.before(first, 2); !isText && s.lineEnd(at) > 0 && before != "" && !strings.HasSuffix(before, "\n") && before != `\n` && before != `\r` {
		return span{}, false
	}
	indent := 0
	for first < begin && s.text[first] == ' ' {
		first, indent = first+1, indent+1
	}
	isElement := s.text[first] == '-'
	at += len(blockMark.FindString(s.after(at, 16)))
	for at < len(s.text) {
		end := s.lineEnd(at)
		if end == 0 {
			break
		}
		start := at + end
		text := start
		for text < len(s.text) && s.text[text] == ' ' {
			text++
		}
		deep := text-start > indent || text-start == indent && !isElement && strings.HasPrefix(s.after(text, 2), "- ")
		if text < len(s.text) && s.lineEnd(text) == 0 && !deep {
			break
		}
		isEscaped := s.text[start-1] != '\n' && s.text[start-1] != '\r'
		for at = text; at < len(s.text) && s.lineEnd(at) == 0 && (!isEscaped || s.text[at] != '"'); at++ {
		}
		if at > text {
			value = span{cmp.Or(value.begin, text), at}
		}
	}
	return value, value.end > value.begin
}

// heredoc returns the lines up to the line with the delimiter.
func (s *scanner) heredoc(at int) span {
	end := at
	for end < len(s.text) && s.lineEnd(end) == 0 {
		end++
	}
	word := strings.Trim(s.text[at:end], "<-~ '\"")
	if found := strings.Index(s.text[end:], word); word != "" && found >= 0 {
		return span{at, end + found + len(word)}
	}
	return span{at, len(s.text)}
}

// pairWindow is the maximum distance between a name and its value in an object, in bytes.
const pairWindow = 128

// nameKeys lists keys whose value is the name of a value under a separate key.
var nameKeys = strings.Fields("name key variable var field header param parameter env label")

// isNameValue reports whether the value of one of nameKeys begins at a position.
func (s *scanner) isNameValue(begin int) bool {
	const skipped = " \t\\\"'"
	before := strings.TrimRight(s.before(begin, maxOperator/2), skipped)
	key := strings.TrimRight(before, ":=>")
	if key == before {
		return false
	}
	key = strings.TrimRight(key, skipped)
	return slices.Contains(nameKeys, strings.ToLower(key[strings.LastIndexFunc(key, func(r rune) bool { return !isAlphanumeric(byte(r)) })+1:]))
}

// pair hides a value that is in the same object as its name: {"name": "DB_PASSWORD", "value": …}.
func (s *scanner) pair(begin, end int) bool {
	if !s.isNameValue(begin) {
		return false
	}
	next := s.after(end, pairWindow)
	for _, after := range []string{"{", "}", "- "} {
		next, _, _ = strings.Cut(next, after)
	}
	if at := s.valueKey(end, next, true); at > 0 {
		value, ok := s.value(at, at+len("value"), "value", false)
		return ok && s.hide(value, Mark)
	}
	before := s.text[max(s.done, begin-pairWindow):begin]
	before = before[max(0, strings.LastIndex(before, "},"), strings.LastIndex(before, "- ")):]
	if at := s.valueKey(begin-len(before), before, false); at > 0 {
		object := scanner{text: s.text[:begin]}
		value, ok := object.value(at, at+len("value"), "value", false)
		return ok && s.hide(value, Mark)
	}
	return false
}

// valueKey returns the position of the first or the last key "value" in part, which begins at
// begin. It returns 0 if there is no such key.
func (s *scanner) valueKey(begin int, part string, first bool) (found int) {
	for at := range len(part) {
		if !startsWith(part[at:], "value") || at > 0 && isAlphanumeric(part[at-1]) {
			continue
		}
		if end, _ := s.operator(begin + at + len("value")); end > 0 {
			if found = begin + at; first {
				break
			}
		}
	}
	return found
}

// bare hides the word after a name without an operator if the word is quoted or looks random, as in
// `wrong password "…"`. It ignores the name "secret", which often precedes a quoted name.
func (s *scanner) bare(begin, end int, name string) bool {
	words := wordsOf(name)
	last := ""
	if len(words) > 0 {
		last = words[len(words)-1]
	}
	if begin > 0 && isQuote(s.text[begin-1]) || last == "secret" || !slices.Contains(ownWords, last) && !strings.EqualFold(name, "key") {
		return false
	}
	at := end
	if strings.HasPrefix(s.text[at:], "(") {
		at++
	} else {
		for _, filler := range []string{" is", " was", " to", ":"} {
			if strings.HasPrefix(s.text[at:], filler) {
				at += len(filler)
			}
		}
		if at = s.afterBlanks(at); at == end {
			return false
		}
	}
	if openingQuote(s.text, at) == 0 && !isRandom(s.after(at, maxRandom)) {
		return false
	}
	value := s.word(begin, at, false)
	return value.end-value.begin > len("<eof") && s.hide(value, Mark) // "<eof" is an unexpected token, not a secret
}

// maxRandom limits the text that isRandom checks, in bytes.
const maxRandom = 32

// isRandom reports whether the first word of a text has at least eight characters, including
// letters and digits.
func isRandom(text string) bool {
	word, _, _ := strings.Cut(text, " ")
	return len(word) >= 8 && hasDigit(word) && strings.Trim(word, "0123456789.,:/-") != "" && !strings.ContainsAny(word, "([{=")
}

// identified hides the password in an SQL statement.
func (s *scanner) identified(at int) bool {
	at += len("identified by ")
	return openingQuote(s.text, at) > 0 && s.hide(s.word(at, at, false), Mark)
}

// openingQuote returns the length of the quote and its backslashes at a position, or 0.
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

// word returns the word at a position without its quotes. named is the position of the word's name.
// A quote that precedes the name also ends the word.
func (s *scanner) word(named, at int, parameter bool) span {
	text := s.text
	if quote := openingQuote(text, at); quote > 0 {
		begin := at + quote
		if triple := strings.Repeat(text[begin-1:begin], 3); quote == 1 && strings.HasPrefix(text[at:], triple) {
			begin += 2
			if end := strings.Index(text[begin:], triple); end >= 0 {
				return span{begin, begin + end}
			}
			return span{begin, len(text)}
		}
		return span{begin, closingQuote(text, begin, text[begin-1], quote-1)}
	}
	var around byte // the quote around the name and the word
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
			if end+1 >= len(text) || !isNamePart(text[end+1]) { // the quote closes a quotation around the word
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

// withoutEnd returns the end of a word without trailing punctuation and without the backslashes of
// a quote.
func withoutEnd(text string, begin, end int) int {
	trimmed := begin + len(strings.TrimRight(text[begin:end], `\,;:)]}`))
	if trimmed == begin {
		return end
	}
	return trimmed
}

// closingQuote returns the end of a quoted value: the next quote with at most the same number of
// backslashes, or else the end of the text.
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

// furtherWords returns the end of a value that may consist of two words: an authentication scheme
// and a credential.
func (s *scanner) furtherWords(value span) int {
	end := value.end
	if end < len(s.text) && isQuote(s.text[end]) || end-value.begin > len("negotiate") || !slices.Contains(schemes, strings.ToLower(s.text[value.begin:end])) {
		return end
	}
	next := end
	for next < len(s.text) && (s.text[next] == ' ' || s.text[next] == '\t') {
		next++
	}
	if next == end || next == len(s.text) {
		return end
	}
	return s.word(next, next, false).end
}

// schemes lists the authentication schemes that precede a credential.
var schemes = []string{"basic", "bearer", "token", "digest", "negotiate", "apikey", "key"}
