package redact

import (
	"math/rand/v2"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// example is a text in the corpus and its redacted form.
type example struct{ text, shown string }

func readHidden(t *testing.T) []example {
	t.Helper()
	var examples []example
	for _, line := range readLines(t, "testdata/hidden.txt") {
		if shown, ok := strings.CutPrefix(line, "\t"); ok {
			examples[len(examples)-1].shown = shown
		} else {
			examples = append(examples, example{text: line})
		}
	}
	return examples
}

func readLines(t *testing.T, path string) []string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(strings.Split(string(text), "\n"), func(line string) bool {
		return line == "" || strings.HasPrefix(line, "#")
	})
}

// characters maps each kind of secret in the corpus to the characters that it can contain.
var characters = map[string]string{
	"TOKEN":  letters,
	"VALUE":  letters + marks,
	"SECRET": letters + marks + "&#",
	"PHRASE": letters + marks + "&# ",
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	marks   = "!$%()*+,-./:;<=>?@[]^_{|}~"
)

// place matches the placeholder for a secret, which may be a part of a name.
var place = regexp.MustCompile(`(^|[^A-Z_$])(SECRET|VALUE|TOKEN|PHRASE)($|[^A-Z_=])`)

// with replaces the placeholders in the text with secrets.
func (e example) with(secretOf func(kind string) string) string {
	return place.ReplaceAllStringFunc(e.text, func(found string) string {
		parts := place.FindStringSubmatch(found)
		return parts[1] + secretOf(parts[2]) + parts[3]
	})
}

func TestCorpus(t *testing.T) {
	for _, e := range readHidden(t) {
		given := e.with(func(kind string) string {
			if kind == "PHRASE" {
				return "hunter2 and more"
			}
			return "hunter2"
		})
		if given == e.text || e.shown == "" {
			t.Fatalf("no placeholder or no redacted form: %s", e.text)
		}
		if got := Text(given); got != e.shown {
			t.Errorf("Text(%s)\n   = %s\nwant %s", given, got, e.shown)
		}
		if got := Text(e.shown); got != e.shown {
			t.Errorf("the redacted text %s\nwas changed to %s", e.shown, got)
		}
	}
	for _, text := range readLines(t, "testdata/shown.txt") {
		if got := Text(text); got != text {
			t.Errorf("Text(%s)\n   = %s\nwant no change", text, got)
		}
	}
}

// drawSecret generates a secret. Its first character is a letter or digit, because text that begins
// differently is not always a value.
func drawSecret(t *rapid.T, kind string) string {
	return rapid.StringOfN(rapid.RuneFrom([]rune("bXz9")), 1, 1, -1).Draw(t, "first of "+kind) +
		rapid.StringOfN(rapid.RuneFrom([]rune(characters[kind])), 7, 30, -1).Draw(t, kind)
}

// leaked returns a part of the secret that a text contains, or "". It ignores blanks and
// punctuation at both ends of the secret.
func leaked(shown, secret string) string {
	const enough = 4
	secret = strings.Trim(secret, ` \,;:)]}`)
	for i := 0; i+enough <= len(secret); i++ {
		if part := secret[i : i+enough]; strings.Contains(shown, part) {
			return part
		}
	}
	return ""
}

// TestNoSecretIsShown checks that no part of any secret in the corpus is shown.
func TestNoSecretIsShown(t *testing.T) {
	examples := readHidden(t)
	rapid.Check(t, func(t *rapid.T) {
		e := rapid.SampledFrom(examples).Draw(t, "example")
		before := rapid.SampledFrom([]string{"", "started: ", "worker -v ", "x=1 ", "{\"a\": 1} "}).Draw(t, "before")
		after := rapid.SampledFrom([]string{"", " --verbose", ": no such file", " (2 times)"}).Draw(t, "after")
		var planted []string
		given := before + e.with(func(kind string) string {
			planted = append(planted, drawSecret(t, kind))
			return planted[len(planted)-1]
		}) + after
		shown := Text(given)
		for _, secret := range planted {
			if part := leaked(shown, secret); part != "" && !strings.Contains(before+e.shown+after, part) {
				t.Fatalf("Text(%s)\n   = %s\nwith %q of the secret", given, shown, part)
			}
		}
	})
}

// TestTokens checks that tokens are recognized by their shapes in any context.
func TestTokens(t *testing.T) {
	kinds := map[string]string{"alnum": letters, "word": letters + "_-", "hex": "0123456789abcdef", "upper": "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"}
	random := rand.New(rand.NewPCG(1, 2))
	for _, line := range readLines(t, "testdata/tokens.txt") {
		fields := strings.Fields(line)
		length, err := strconv.Atoi(fields[1])
		if err != nil || kinds[fields[2]] == "" {
			t.Fatalf("%q: %v", line, err)
		}
		secret := "0a"
		if fields[2] == "upper" {
			secret = "2A"
		}
		for len(secret) < length {
			secret += string(kinds[fields[2]][random.IntN(len(kinds[fields[2]]))])
		}
		for _, around := range []string{"%s", "server rejected %s: expired", `{"x":"%s"}`, `\"%s\"`, "(%s)", "x=%s,", "x=%s;y", "/a/%s/b", "a:%s"} {
			text := strings.Replace(around, "%s", fields[0]+secret, 1)
			if shown := Text(text); strings.Contains(shown, secret[:8]) || strings.Contains(shown, secret[len(secret)-8:]) {
				t.Errorf("Text(%s) = %s", text, shown)
			}
		}
	}
}

// TestTimeIsLinear checks that the time is linear in the length of the text.
func TestTimeIsLinear(t *testing.T) {
	parts := []string{
		"a:b@c", "://", "http://a", "@", "token", "token ", "token: ", `token="`, `token=\"`, `\"token=`, "token:\n", "  token: |\n", "rate_token:", "name=token ",
		`"name":"token",`, `value=a"name="token"`, `-u "`, `-u \"`, "-u a:", "-p '", "Bearer ", "sk-a", "eyJ", "s.", "a1Q~", "1:AA", "/webhook/", "/bot1:", `"name":"token","value":`,
		"-----BEGIN PRIVATE KEY-----", "Authorization: \n", "token:[", `token:{"`, "token=<<A\n", "<token>", "identified by '", "api key ", `fleet "token: `,
		"password (", `\`, `"`, "{", " ", "k",
	}
	for _, part := range parts {
		for _, after := range []string{"", `"`} {
			text := strings.Repeat(part, (32<<10)/len(part)) + after
			begun := time.Now()
			Text(text)
			JSON([]byte(`{"a":"` + text + `"}`))
			if took := time.Since(begun); took > 5*time.Second { // quadratic rules take minutes
				t.Errorf("time for 32 KiB of %q = %s", part, took)
			}
		}
	}
	if got := Text(strings.Repeat("ab ", 1<<20)); len(got) > 1<<20+8 {
		t.Errorf("length of a redacted text of 3 MiB = %d bytes, want at most 1 MiB", len(got))
	}
}
