package redact

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/hpad/hpad/settings/secret"
)

// window limits the text that the rules read around a position, in bytes, to keep the time linear.
const window = 128

// scanner reads a text once from left to right. At each character that can precede a secret, one
// rule decides whether a secret follows and where it ends:
//
//	= : ~ %3d   afterOperator   DB_PASSWORD=…  "token": "…"  api_key=~"…"
//	-           afterFlag       --token …      -p …          -u user:…
//	blank       afterWord       Bearer …       wrong password "…"
type scanner struct {
	text    string
	oneWord bool
	shown   strings.Builder
	// done is the end of the part of the text that has been copied or hidden.
	done int
	// named is the position after the last secret name that is the value of a key such as "name".
	// The value of the next key "value" is secret, as in {"name": "DB_PASSWORD", "value": "…"}.
	named int
}

// span is a part of a text. An empty span is not secret.
type span struct{ begin, end int }

// hidePairs hides the values of names, flags and authentication schemes.
func hidePairs(text string, oneWord bool) string {
	if !strings.ContainsAny(text, `=:-'"%`) {
		return text
	}
	s := scanner{text: text, oneWord: oneWord}
	for i := 0; i < len(text); i++ {
		var secret span
		switch text[i] {
		case '=', ':', '~', '%':
			secret = s.afterOperator(i)
		case '-':
			secret = s.afterFlag(i)
		case ' ':
			secret = s.afterWord(i)
		}
		if secret.end > secret.begin {
			s.shown.WriteString(text[s.done:secret.begin])
			s.shown.WriteString(Mark)
			s.done = secret.end
			i = max(i, s.done-1)
		}
	}
	return s.shown.String() + text[s.done:]
}

func (s *scanner) after(at int) string { return s.text[at:min(len(s.text), at+window)] }

// before returns at most a window of the text before a position.
func (s *scanner) before(at int) string { return s.text[max(s.done, at-window):at] }

// pair is a name with its operator, and the position of the value.
type pair struct {
	name  string
	begin int // the position of the name
	// operator includes the blanks after it, such as "=" or ": ".
	operator string
	value    int
	// isParameter is set for a parameter in the query of a URL.
	isParameter bool
	isQuoted    bool
}

// operator matches an operator and the blanks after it.
var operator = regexp.MustCompile(`^(?:[=:]+[=>~]?|~|%3[dD])[ \t]*`)

// afterOperator returns the value after the operator at a position if its name is secret.
func (s *scanner) afterOperator(at int) span {
	p := pair{operator: operator.FindString(s.after(at))}
	p.name, p.begin = s.name(at)
	p.value = at + len(p.operator)
	if p.operator == "" || p.name == "" || strings.HasPrefix(p.operator, "::") || strings.HasPrefix(s.text[p.value:], "//") { // "Secret::new", "token://"
		return span{}
	}
	p.isParameter = p.begin > 0 && strings.IndexByte("?&", s.text[p.begin-1]) >= 0
	p.isQuoted = openingQuote(s.text, p.value) > 0
	if !s.isSecret(&p) || s.isStatement(&p, at) {
		return span{}
	}
	value := s.valueOf(&p)
	if s.oneWord && value.end > value.begin {
		value.end = len(s.text)
	}
	return value
}

// name returns the name before an operator and its position, without its quotes. Two words such as
// "API key" are one name.
func (s *scanner) name(at int) (name string, begin int) {
	before := strings.TrimRight(s.before(at), " \t=:!?+")
	before = strings.TrimRight(strings.TrimSuffix(strings.TrimRight(before, "\"'`\\"), "]"), "\"'`\\")
	rest, name := cutLast(before)
	begin = max(s.done, at-window) + len(rest)
	if strings.HasSuffix(rest, `\`) && name != "" && strings.IndexByte("nrt", name[0]) >= 0 {
		return name[1:], begin + 1 // the first letter is part of an escaped line end
	}
	if strings.EqualFold(name, "key") && strings.HasSuffix(rest, " ") {
		if _, kind := cutLast(rest[:len(rest)-1]); slices.Contains(secret.KeyKinds, strings.ToLower(kind)) {
			return kind + name, begin
		}
	}
	return name, begin
}

// cutLast cuts a text before its last word.
func cutLast(text string) (before, word string) {
	begin := len(text)
	for begin > 0 && isNamePart(text[begin-1]) {
		begin--
	}
	return text[:begin], text[begin:]
}

// isSecret reports whether the name of a pair makes its value secret.
func (s *scanner) isSecret(p *pair) bool {
	name := strings.TrimLeft(p.name, "-")
	isFlag := name != p.name
	switch {
	case name == "KEY" || p.isParameter && (name == "key" || name == "code") || isFlag && name == "key":
		return true
	case slices.Contains(nameKeys, strings.ToLower(name)) && s.isSecretName(p.value):
		s.named = p.value
		return false
	case strings.EqualFold(name, "value") && s.named > 0 && p.begin-s.named < window && !strings.ContainsAny(s.text[s.named:p.begin], "{}"):
		s.named = 0
		return true
	}
	return Named(name)
}

// isSecretName reports whether a secret name begins at a position.
func (s *scanner) isSecretName(at int) bool {
	name := strings.TrimLeft(s.after(at), "\\\"'`")
	return Named(name[:len(name)-len(strings.TrimLeftFunc(name, func(r rune) bool { return r < utf8.RuneSelf && isNamePart(byte(r)) }))])
}

// maxSubject is the maximum length of a match of subject in bytes.
const maxSubject = 24

var (
	// subject matches the text before the name of the subject of an error, as in `fleet "auth": …`.
	subject = regexp.MustCompile(`(?:(?:autoscaler|fleet|source) (?:\\*["'])?|[/@]|(?:container|directory|group|instance|job|metric|namespace|network|node|project|service|target|task|unit|volume) \\*["'])$`)
	// comparison matches the operators of PromQL and shells that precede a quoted value.
	comparison = regexp.MustCompile(`^(?:==|=?~)|^=.*!$`)
	// aggregated matches the last part of a recording rule's name, such as "auth_tokens:rate5m".
	aggregated = regexp.MustCompile(`^(?:rate|irate|increase|sum|avg|count|min|max|ratio|delta|deriv|p\d\d)(?:[_:\d]|\b)`)
)

// isStatement reports whether the text after the operator is not the value of the name: an error
// about an object with this name, the number in a comparison, or the rest of a metric's name.
func (s *scanner) isStatement(p *pair, at int) bool {
	switch {
	case p.isSentence() && !p.isHeader() && subject.MatchString(s.text[max(s.done, p.begin-maxSubject):p.begin]):
		return true
	case !p.isQuoted && comparison.MatchString(p.operator+s.text[at-1:at]):
		return true
	}
	return p.isColon() && !p.isSentence() && aggregated.MatchString(s.after(p.value))
}

func (p *pair) isColon() bool    { return strings.HasPrefix(p.operator, ":") }
func (p *pair) isSentence() bool { return strings.HasSuffix(p.operator, ": ") }

// isHeader reports whether the value of the name is the rest of the line.
func (p *pair) isHeader() bool {
	name := strings.ToLower(p.name)
	return strings.HasSuffix(name, "authorization") || strings.HasSuffix(name, "cookie")
}

var (
	// composite matches the start of an object or a list in JSON, YAML or Go syntax.
	composite = regexp.MustCompile(`^(?:&?(?:map\[[\w.]+\]|\[\d*\])+[\w.]*\{|&[\w.]*\{|\{|(?:map)?\[)`)
	lineEnd   = regexp.MustCompile(`[\r\n]|\\+[nr]|$`)
	// scheme matches an authentication scheme that precedes a credential.
	scheme = regexp.MustCompile(`^(?i:basic|bearer|token|digest|negotiate|apikey|key)[ \t]+`)
)

// valueOf returns the value of a secret name: an object or a list, the rest of a header's line, or a
// word.
func (s *scanner) valueOf(p *pair) span {
	rest := s.after(p.value)
	switch {
	case strings.HasPrefix(rest, Mark):
		return span{p.value, p.value + len(Mark)}
	case composite.MatchString(rest):
		return span{p.value, s.closingBracket(p.value)}
	case p.isColon() && p.isHeader() && (p.begin == 0 || !isQuote(s.text[p.begin-1])):
		return span{p.value, p.value + lineEnd.FindStringIndex(s.text[p.value:])[0]}
	}
	value := s.word(p.begin, p.value, p.isParameter)
	given := s.text[value.begin:value.end]
	if isNumber(given, p.name) || !p.isQuoted && (isNothing(given) || p.isSentence() && isProse(given)) {
		return span{}
	}
	if found := scheme.FindString(rest); found != "" && !p.isQuoted {
		value.end = max(value.end, s.word(p.begin, p.value+len(found), p.isParameter).end)
	}
	return value
}

// nothing lists booleans and the words for a missing value.
var nothing = strings.Fields("true false null nil none <nil> <none> undefined")

func isNothing(word string) bool { return slices.Contains(nothing, strings.ToLower(word)) }

// prose lists words that can start an error after a secret name and a colon, such as "no access
// token: dial tcp". Any other word in this position is treated as a secret.
var prose = strings.Fields(`
	a all an and any are bad but cannot connect connection context could denied dial did does empty error exit expired failed find forbidden get has have
	invalid is it line malformed missing must no not only open optional or parse permission post put query read refused rejected required server should
	stat the there timeout too unauthorized unexpected unknown use was when without wrong x509
`)

func isProse(word string) bool { return slices.Contains(prose, strings.ToLower(word)) }

var (
	// flag matches a flag and the text before its value: blanks, or the quotes between elements of
	// a list.
	flag = regexp.MustCompile("^(--?[A-Za-z][\\w.-]*)(=|[ \\t]+|\\\\*[\"'][ \\t]*,?[ \\t]*\\\\*[\"'])?")
	// port matches a port mapping after "-p", which is not a password.
	port = regexp.MustCompile(`^\d{1,5}(?::\d{1,5})?$`)
)

// afterFlag returns the secret value of the flag at a position. In many programs "-p" is the flag
// for a password; the values of other flags are "user:password".
func (s *scanner) afterFlag(at int) span {
	if at > 0 && !isBlank(s.text[at-1]) && strings.IndexByte("\"'`([,", s.text[at-1]) < 0 {
		return span{}
	}
	found := flag.FindStringSubmatch(s.after(at))
	if found == nil {
		return span{}
	}
	name, separator := found[1], found[2]
	begin := at + len(found[0])
	isDatabase := strings.Contains(s.before(at), "mysql") || strings.Contains(s.before(at), "mariadb") // "-phunter2" is a password
	switch {
	case len(name) > 2 && strings.HasPrefix(name, "-p") && (isDatabase || separator != "=" && strings.ContainsAny(name, "0123456789")):
		value := s.word(at, at+len("-p"), false)
		if port.MatchString(s.text[value.begin:value.end]) {
			return span{}
		}
		return value
	case separator == "":
		return span{}
	case slices.Contains(userFlags, name):
		colon := strings.IndexAny(s.after(begin), ": \t\n")
		if colon < 0 || s.after(begin)[colon] != ':' {
			return span{}
		}
		return span{begin + colon + 1, s.word(at, begin, false).end}
	case !isSecretFlag(name) || separator == "=" && name != "-p":
		return span{} // afterOperator reads values after "="
	}
	value := s.word(at, begin, false)
	if given := s.text[value.begin:value.end]; isNumber(given, name) || name == "-p" && port.MatchString(given) {
		return span{}
	}
	return value
}

var (
	// credential matches the value after an authentication scheme.
	credential = regexp.MustCompile(`^[\w+/=.~-]+`)
	// notCredential matches the words that follow "basic" and "bearer" in sentences.
	notCredential = regexp.MustCompile(`^(?i:auth|token|credential|realm)`)
	// quotedSecret lists the words that precede a quoted secret in a sentence.
	quotedSecret = strings.Fields("password passwd passphrase token by")
)

// afterWord returns the secret after the blank at a position: the credential after an
// authentication scheme, or a quoted word, as in `wrong password "…"`.
func (s *scanner) afterWord(at int) span {
	before, word := cutLast(s.before(at))
	switch word = strings.ToLower(word); {
	case word == "bearer" || word == "basic" || word == "negotiate":
		found := credential.FindString(s.text[at+1:])
		isPlain := found == strings.ToLower(found) && !strings.ContainsAny(found, "0123456789+/=")
		if isProse(found) || notCredential.MatchString(found) || word == "basic" && (len(found) < 8 || isPlain) {
			return span{}
		}
		return span{at + 1, at + 1 + len(strings.TrimRight(found, "."))}
	case openingQuote(s.text, at+1) == 0 || !slices.Contains(quotedSecret, word) || word == "by" && !strings.HasSuffix(strings.ToLower(before), "identified "):
		return span{}
	}
	const shortest = 5 // the token of a parser's error, such as '<' or "<eof", is not secret
	value := s.word(at, at+1, false)
	if value.end-value.begin < shortest {
		return span{}
	}
	return value
}

// word returns the word at a position without its quotes. named is the position of the word's name.
// A quote before the name also ends the word.
func (s *scanner) word(named, at int, isParameter bool) span {
	text := s.text
	if quote := openingQuote(text, at); quote > 0 {
		begin := at + quote
		return span{begin, closingQuote(text, begin, text[begin-1], quote-1)}
	}
	for _, quote := range []int{named - 1, at - 1} {
		if quote >= 0 && isQuote(text[quote]) {
			return span{at, closingQuote(text, at, text[quote], backslashesBefore(text, quote))}
		}
	}
	end := at
	for ; end < len(text) && !isBlank(text[end]) && (!isParameter || text[end] != '&' && text[end] != '#'); end++ {
		if !isQuote(text[end]) {
			continue
		}
		if end+1 == len(text) || !isNamePart(text[end+1]) {
			break // the quote closes a quotation around the word
		}
		end = min(closingQuote(text, end+1, text[end], backslashesBefore(text, end)), len(text)-1)
	}
	if trimmed := strings.TrimRight(text[at:end], `\,;:)]}`); trimmed != "" {
		end = at + len(trimmed)
	}
	return span{at, end}
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

// closingQuote returns the end of a quoted value: the next quote with at most the same number of
// backslashes, or the end of the text.
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
	return at - len(strings.TrimRight(text[:at], `\`))
}

// closingBracket returns the end of the object or list that begins at a position.
func (s *scanner) closingBracket(at int) int {
	depth := 0
	for i := at; i < len(s.text); i++ {
		switch c := s.text[i]; c {
		case '[', '{':
			depth++
		case ']', '}':
			if depth--; depth == 0 && !elementType.MatchString(s.after(i+1)) {
				return i + 1
			}
		case '"', '\'':
			i = closingQuote(s.text, i+1, c, backslashesBefore(s.text[at:], i-at))
			for i < len(s.text) && s.text[i] == '\\' {
				i++
			}
		}
	}
	return len(s.text)
}

// elementType matches the element type of a Go slice and its brace, as in "[]string{".
var elementType = regexp.MustCompile(`^[\w.\[\]]*\{`)

// isNamePart reports whether a name can contain a character.
func isNamePart(c byte) bool {
	return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_' || c == '-' || c == '.' || c >= utf8.RuneSelf
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isQuote(c byte) bool { return c == '"' || c == '\'' || c == '`' }
