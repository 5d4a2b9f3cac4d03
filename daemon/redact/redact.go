// Package redact hides possible secrets in everything that hpad shows: its configuration, API
// responses, logs and errors. The same rules apply everywhere. Doubtful values are hidden.
//
// Secrets are recognized by names ("DB_PASSWORD=…", "--token …", {api_key="…"}), by positions
// (credentials in a URL, values after "-p" or "Bearer") and by the prefixes of common tokens.
// Numbers and the names of metrics and labels are not secrets. A secret without a name, such as in
// "echo hunter2", is not recognized.
package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"regexp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
)

// Mark replaces a secret.
const Mark = "<redacted>"

// maxText is the maximum length of a text in bytes. Longer texts are truncated.
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
	if strings.Contains(text, "PRIVATE KEY-----") {
		text = privateKey.ReplaceAllString(text, Mark)
	}
	if mayContainToken(text) {
		text = token.ReplaceAllStringFunc(text, func(found string) string {
			if !strings.ContainsAny(found, "0123456789") {
				return found // a name such as sk-checkout-service
			}
			return Mark
		})
	}
	if strings.Contains(text, "hook") || strings.Contains(text, "/bot") {
		text = webhook.ReplaceAllString(text, "$1$2"+Mark)
	}
	if strings.ContainsAny(text, `=:-'"%`) {
		text = hideNamed(text, oneWord)
	}
	if strings.Contains(text, "@") {
		text = address.ReplaceAllStringFunc(text, hideCredentials)
	}
	return text + cut
}

// privateKey matches a private key in PEM, even if its end is missing.
var privateKey = regexp.MustCompile(`-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----(?s:.*?)(?:-----END [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----|$)`)

// token matches JSON web tokens and the tokens of GitHub, GitLab, Slack, AWS, Azure, Google,
// OpenAI, Anthropic, Stripe, Vault, Shopify, SendGrid, Atlassian, npm, PyPI, Docker, DigitalOcean,
// Grafana and Telegram.
var token = regexp.MustCompile(`(?:\b|\\[nrt])(?:` + strings.Join([]string{
	`gh[opsur]_\w{16,}`, `github_pat_\w{16,}`, `gl[a-z]{2,6}-[\w-]{16,}`, `xox[a-z][.-][\w.-]{8,}`, `xapp-[\w-]{16,}`,
	`A(?:KIA|SIA)[A-Z0-9]{16}`, `AIza[\w-]{30,}`, `[rs]k[-_][\w-]{16,}`, `whsec_\w{16,}`, `hv[bsr]\.[\w-]{16,}`, `s\.\w{24}\b`,
	`eyJ[\w-]{8,}[\w.=-]*`, `ya29\.[\w-]{16,}`, `GOCSPX-[\w-]{16,}`, `SG\.[\w.-]{16,}`, `shp(?:at|ca|pa|ss)_\w{16,}`, `AT(?:ATT|BB|CTT)[\w=-]{16,}`, `npm_\w{30,}`, `pypi-[\w-]{30,}`, `dckr_[op]at_[\w-]{16,}`, `do[opr]_v1_\w{16,}`, `gl(?:c|sa)_\w{30,}`, `\d{5,10}:AA[\w-]{30,}`, `\w{3}\dQ~[\w.~-]{31,}`,
}, "|") + `)`)

// webhook matches the secret part of a webhook URL. Anyone with the URL can post to it.
var webhook = regexp.MustCompile(`(hooks\.(?:slack|zapier)\.com/|discord(?:app)?\.com/api/webhooks/|/webhookb2/|://[^\s"'/]+/(?:web)?hooks?/)[^\s"'\\]+|(/bot)\d+:[^\s"'\\]+`)

// mayContainToken reports whether a text contains a long word with digits and adjacent letters.
func mayContainToken(text string) bool {
	const shortest = 16
	length, digits, pairs := 0, 0, 0
	for i := range len(text) {
		switch c := text[i]; {
		case c != ':' && c != '~' && !isNamePart(c):
			length, digits, pairs = 0, 0, 0
			continue
		case c >= '0' && c <= '9':
			digits++
		case length > 0 && c|' ' >= 'a' && c|' ' <= 'z' && text[i-1] >= 'A':
			pairs++
		}
		if length++; length >= shortest && digits > 0 && pairs > 0 {
			return true
		}
	}
	return false
}

// address matches a word, which can be a URL or contain "user:password@host".
var address = regexp.MustCompile(`[^\s"'` + "`" + `]+`)

var (
	// digest matches the digest after the "@" in an image name, and the time after a PromQL
	// subquery.
	digest = regexp.MustCompile(`@(?:sha\d+:|\d+$|\d+[^\w.]|start\(|end\()`)
	// userOnly matches an SSH URL that contains only a user name.
	userOnly = regexp.MustCompile(`ssh://[\w.-]+@`)
)

// hideCredentials hides the credentials in a URL and the password in "user:password@host".
// Passwords are often not escaped, so the credentials extend to the last "@" in the word.
func hideCredentials(word string) string {
	last := strings.LastIndexByte(word, '@')
	if last > 0 && digest.MatchString(word[last:]) {
		last = strings.LastIndexByte(word[:last], '@')
	}
	if last <= 0 || last == len(word)-1 {
		return word
	}
	for i := range last {
		switch {
		case strings.HasPrefix(word[i:], "://"):
			if userOnly.MatchString(word[:last+1]) && !strings.Contains(word[i+3:last], ":") {
				return word
			}
			return word[:i+3] + "redacted" + word[last:]
		case i > 0 && word[i] == ':' && i < last-1 && isNamePart(word[i-1]):
			return word[:i+1] + Mark + word[last:]
		}
	}
	return word
}

// Value returns the value of a key, header or label without secrets. If the name is secret, it
// returns Mark, unless the value is a number.
func Value(name, text string) string {
	if text != "" && Named(name) && !isNumber(text, name) {
		return Mark
	}
	return Text(text)
}

var (
	// script matches the shell flag that precedes a script.
	script = regexp.MustCompile(`^-[a-z]*c$`)
	// userFlag matches the flags whose value is "user:password".
	userFlag = regexp.MustCompile(`^(?:-[uU]|--user|--proxy-user)$`)
)

// Arguments returns the arguments of a command without secrets. It treats an argument after "-c" as
// a script. In other arguments, it hides everything after a secret name.
func Arguments(arguments []string) []string {
	shown := make([]string, len(arguments))
	before := ""
	for i, argument := range arguments {
		user, _, hasPassword := strings.Cut(argument, ":")
		switch {
		case argument == "":
		case isSecretFlag(before):
			shown[i] = Mark
		case userFlag.MatchString(before) && hasPassword:
			shown[i] = user + ":" + Mark
		default:
			shown[i] = hide(argument, !script.MatchString(before))
		}
		before = argument
	}
	return shown
}

// isSecretFlag reports whether an argument is a flag whose value, the next argument, might be
// secret.
func isSecretFlag(argument string) bool {
	name := strings.TrimLeft(argument, "-")
	return argument == "-p" || name != argument && !strings.ContainsAny(name, "=: \t\n") && (Named(name) || name == "key")
}

// nameKeys lists the keys that contain the name of a variable or header. The key "value" of the
// same object contains its value.
var nameKeys = strings.Fields("name key variable var field header param parameter env label")

func isNameKey(key string) bool { return slices.Contains(nameKeys, strings.ToLower(key)) }

// level is an object or a list in JSON.
type level struct {
	// secret reports whether all strings in this level might be secret.
	secret bool
	// key is the last key of the object.
	key string
	// next reports whether the next value is secret. It is set after a secret flag in a list, and
	// for the key "value" in an object such as {"name": "DB_PASSWORD", "value": "hunter2"}.
	next bool
}

// JSON removes secrets from encoded JSON. It replaces all strings below a key with a secret name,
// the value after a secret name in an object, and secrets inside other strings. It does not change
// keys and numbers. Like [json.Marshal], it escapes HTML characters. If encoded is not valid JSON,
// it returns the redacted text.
func JSON(encoded []byte) []byte {
	return hideJSON(encoded, jsontext.EscapeForHTML(true), jsontext.EscapeForJS(true))
}

func hideJSON(encoded []byte, options ...jsontext.Options) []byte {
	var out bytes.Buffer
	options = append(options, jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	from, to := jsontext.NewDecoder(bytes.NewReader(encoded), options...), jsontext.NewEncoder(&out, options...)
	levels := []level{{}}
	for {
		token, err := from.ReadToken()
		if errors.Is(err, io.EOF) {
			return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
		}
		in := &levels[len(levels)-1]
		kind, length := from.StackIndex(from.StackDepth())
		switch {
		case err != nil:
			shown, _ := json.Marshal(Text(string(encoded)))
			return shown
		case token.Kind() == '{' || token.Kind() == '[':
			levels = append(levels, level{secret: in.secret || in.next && in.isValue() || Named(in.key)})
		case token.Kind() == '}' || token.Kind() == ']':
			levels = levels[:len(levels)-1]
		case token.Kind() == '"' && kind == '{' && length%2 == 1:
			in.key = token.String()
		case token.Kind() == '"':
			token = jsontext.String(in.hide(token.String()))
		}
		if err := to.WriteToken(token); err != nil {
			return []byte(`"` + Mark + `"`)
		}
	}
}

// isValue reports whether next applies to the next value of the level.
func (l *level) isValue() bool { return l.key == "" || strings.EqualFold(l.key, "value") }

// hide returns the next string of the level without secrets.
func (l *level) hide(text string) string {
	secret := l.secret || l.next && l.isValue()
	if l.isValue() {
		l.next = l.key == "" && isSecretFlag(text)
	} else if isNameKey(l.key) {
		l.next = Named(text)
	}
	if secret && text != "" && !isNumber(text, l.key) {
		return Mark
	}
	return Value(l.key, text)
}

// Writer returns a writer that removes secrets from log lines, in JSON or as text, before it writes
// them to w.
func Writer(w io.Writer) io.Writer { return writer{w} }

type writer struct{ io.Writer }

// Write writes one line.
func (w writer) Write(line []byte) (int, error) {
	text, shown := bytes.TrimSuffix(line, []byte("\n")), []byte(nil)
	if bytes.HasPrefix(line, []byte("{")) {
		shown = hideJSON(text)
	} else {
		shown = []byte(Text(string(text)))
	}
	if _, err := w.Writer.Write(append(shown, '\n')); err != nil {
		return 0, err
	}
	return len(line), nil
}
