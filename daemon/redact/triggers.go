package redact

import (
	"regexp"
	"strings"
)

// nameWords lists lower-case triggers for names. Every secret name contains one of them.
var nameWords = strings.Fields(`
	pass pwd pw secret token cred auth key sig sas jwt cookie bearer otp psk sid dsn sess pin
`)

// tokenPrefixes are followed by at least minToken characters of a token. longPrefixes are also
// common words, so they must be followed by at least minLong letters and digits. The prefixes are
// from the rules of gitleaks and the documentation of the issuers.
var (
	tokenPrefixes = strings.Fields(`
		gho_ ghp_ ghs_ ghu_ ghr_ github_pat_ glpat- gldt- glft- glsoat- glrt- glcbt- glptt- glagent- glimt- glffct- gloas- GR1348941
		xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp- AIza ya29. GOCSPX- ABSK bedrock-api-key-
		sk- sk_ rk_live_ rk_test_ rk_prod_ whsec_ hvs. hvb. hvr. npm_ pypi-AgE rubygems_ dop_v1_ doo_v1_ dor_v1_ SG. eyJ ZXlK
		shpat_ shpca_ shppa_ shpss_ sq0atp- sq0csp- EAAA dckr_pat_ dckr_oat_ dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. PMAK- lin_api_
		ntn_ figd_ gsk_ xai- r8_ pplx- tskey- fo1_ fm1a_ fm1r_ fm2_ nvapi- AGE-SECRET-KEY-1 ops_eyJ glc_ glsa_ NRAK- NRII- NRJS- NRIQ- NRRA-
		sntrys_ sntryu_ CLOJARS_ ATATT ATCTT ATBB FLWSECK fio-u- HRKU- duffel_live_ duffel_test_ dt0c01. dt0s01. s-s4t2ud- s-s4t2af-
		shippo_live_ shippo_test_ xkeysib- xsmtpsib- v1.0- pscale_tkn_ pscale_pw_ pscale_oauth_ rdme_ sbp_ sb_secret_ tfp_ nfp_ phx_
		sm_aat_ sm_pat_ sm_sat_ tk-us- sha256~ CCIPAT_ bkua_ apify_api_ tvly- lsv2_ dnkey- AQVN access-production- access-development- access-sandbox-
	`)
	longPrefixes = strings.Fields(`pul- ico- hf_ api_org_ dapi secret_ sgp_ AKCp cmVmd EZAK EZTK EAAC EAAM pnu_ p8e- pat sl. oy2 waka_`)
)

// shapes describes tokens that cannot be identified by a prefix alone. before is the number of the
// token's characters that precede the trigger; the last of them is a digit.
var shapes = []struct {
	trigger string
	before  int
	shape   *regexp.Regexp
}{
	{"akia", 0, awsKey},
	{"asia", 0, awsKey},
	{"abia", 0, awsKey},
	{"acca", 0, awsKey},
	{"a3t", 0, awsKey},
	{"ltai", 0, regexp.MustCompile(`^LTAI[A-Za-z0-9]{20}\b`)},
	{"api-", 0, regexp.MustCompile(`^API-[A-Z0-9]{26}\b`)},
	{"a3-", 0, regexp.MustCompile(`^A3-[A-Z0-9]{6}-[A-Z0-9-]{20,}`)},
	{"s.", 0, regexp.MustCompile(`^s\.[A-Za-z0-9]{24}\b`)},
	{"sk", 0, regexp.MustCompile(`^SK[0-9a-f]{32}\b`)},
	{"key-", 0, regexp.MustCompile(`^key-[0-9a-f]{32}`)},
	{".atlasv1.", 0, regexp.MustCompile(`^\.atlasv1\.[\w=-]{40,}`)},
	{"q~", 4, regexp.MustCompile(`^[\w.~]{3}\dQ~[\w.~-]{31,34}`)},
	{":aa", 10, regexp.MustCompile(`\d{5,10}:AA[\w-]{30,}`)}, // a Telegram token
}

var awsKey = regexp.MustCompile(`^A(?:3T[A-Z0-9]|KIA|SIA|BIA|CCA)[A-Z0-9]{16}`)

// maxShape limits the length of a token in shapes after its trigger, in bytes.
const maxShape = 128

// webhooks lists the texts that precede the secret part of a webhook URL.
var webhooks = []string{"/webhooks/", "/webhook/", "/webhookb2/", "/incomingwebhook/", "hooks.slack.com/", "hooks.zapier.com/", "/hooks/", "/hook/", "/integration/", "/bot"}

// rule hides a secret at the position of a trigger, or returns false if there is no secret.
type rule func(s *scanner, at int) bool

// trigger is a lower-case word and the rule to try where it occurs.
type trigger struct {
	word string
	rule rule
}

// wordTable maps a hash of three letters to the words that begin with them. begun contains a bit
// for each hash and fits into the processor's cache. A two-letter word has an entry for each
// possible third letter.
type wordTable struct {
	begun [1 << 15 / 64]uint64
	words map[uint16][]trigger
}

// shift adds a letter to the hash of the two preceding letters.
func shift(hash uint16, c byte) uint16 { return (hash<<5 | uint16(c&31)) & (1<<15 - 1) }

func tableOf(list []trigger) *wordTable {
	t := &wordTable{words: map[uint16][]trigger{}}
	for _, one := range list {
		hash := shift(shift(0, one.word[0]), one.word[1])
		thirds := []byte{one.word[min(2, len(one.word)-1)]}
		for c := byte(0); len(one.word) == 2 && c < 31; c++ {
			thirds = append(thirds, thirds[0]+1+c)
		}
		for _, third := range thirds {
			hash := shift(hash, third)
			t.begun[hash/64] |= 1 << (hash % 64)
			t.words[hash] = append(t.words[hash], one)
		}
	}
	return t
}

func (t *wordTable) has(hash uint16) bool { return t.begun[hash/64]&(1<<(hash%64)) != 0 }

// isIn reports whether a text contains one of the words.
func isIn[T string | []byte](t *wordTable, text T) bool {
	hash := uint16(0)
	for i := range len(text) + 1 {
		if i < len(text) {
			hash = shift(hash, text[i])
		} else {
			hash = shift(hash, 0)
		}
		if i < 2 || !t.has(hash) {
			continue
		}
		for _, one := range t.words[hash] {
			if startsWith(text[i-2:], one.word) {
				return true
			}
		}
	}
	return false
}

var (
	triggers = tableOf(allTriggers())
	// names contains only the triggers for names.
	names = tableOf(triggersOf(nil, nameWords...))
)

// triggersOf returns triggers with the same rule.
func triggersOf(r rule, words ...string) []trigger {
	var list []trigger
	for _, word := range words {
		list = append(list, trigger{word, r})
	}
	return list
}

func allTriggers() []trigger {
	list := []trigger{{"-----begin", (*scanner).privateKey}, {"://", (*scanner).address}}
	for _, prefix := range tokenPrefixes {
		least := minToken
		if strings.HasPrefix(prefix, "xo") {
			least = 8
		}
		list = append(list, trigger{strings.ToLower(prefix), token(prefix, least, isTokenPart)})
	}
	for _, prefix := range longPrefixes {
		list = append(list, trigger{strings.ToLower(prefix), token(prefix, minLong, isAlphanumeric)})
	}
	for _, one := range shapes {
		list = append(list, trigger{one.trigger, func(s *scanner, at int) bool { return s.shape(at, one.before, one.shape) }})
	}
	for _, word := range webhooks {
		list = append(list, trigger{word, func(s *scanner, at int) bool { return s.webhook(at, word) }})
	}
	list = append(list, triggersOf((*scanner).name, nameWords...)...)
	list = append(list, trigger{"code=", (*scanner).name}, trigger{"identified by ", (*scanner).identified})
	list = append(list, triggersOf((*scanner).scheme, "bearer", "basic", "negotiate")...)
	for _, word := range []string{"-p", "-u", "--user", "--proxy-user"} {
		list = append(list, trigger{word, func(s *scanner, at int) bool { return s.shortFlag(at, at+len(word)) }})
	}
	return list
}

// minToken and minLong are the minimum numbers of characters that follow the prefix of a token.
const minToken, minLong = 16, 32

// token returns a rule that hides tokens with a prefix.
func token(prefix string, least int, isPart func(byte) bool) rule {
	return func(s *scanner, at int) bool {
		if at < s.wordy || !strings.HasPrefix(s.text[at:], prefix) || at > 0 && isAlphanumeric(s.text[at-1]) {
			return false
		}
		begin := at + len(prefix)
		end := begin
		for end < len(s.text) && isPart(s.text[end]) {
			end++
		}
		if end-begin < least {
			return false
		}
		if given := s.text[begin:end]; !hasDigit(given) && !isMixed(given) {
			s.wordy = end // a name such as sk-checkout-service
			return false
		}
		for end < len(s.text) && isCredentialPart(s.text[end]) {
			end++
		}
		return s.hide(span{at, begin + len(strings.TrimRight(s.text[begin:end], "."))}, Mark)
	}
}

func hasDigit(text string) bool { return strings.ContainsAny(text, "0123456789") }

func isMixed(text string) bool {
	return text != strings.ToLower(text) && text != strings.ToUpper(text)
}

// shape hides a match of a regular expression that begins up to before bytes before a position.
func (s *scanner) shape(at, before int, shape *regexp.Regexp) bool {
	if before == 0 && s.text[at] != '.' && at > 0 && isAlphanumeric(s.text[at-1]) || before > 0 && (at == 0 || !hasDigit(s.text[at-1:at])) {
		return false
	}
	begin := max(s.done, at-before)
	found := shape.FindStringIndex(s.after(begin, before+maxShape))
	return found != nil && s.hide(span{begin + found[0], begin + found[1]}, Mark)
}

// isBot matches the beginning of a bot token in a Telegram URL.
var isBot = regexp.MustCompile(`^\d+:`)

// webhook hides the rest of a webhook URL, because anyone who knows the URL can post to it.
func (s *scanner) webhook(at int, word string) bool {
	begin := at + len(word)
	value := span{begin, s.wordEnd(begin)}
	switch word {
	case "hooks.slack.com/":
		value.begin = at
	case "/bot":
		if !isBot.MatchString(s.after(begin, 16)) {
			return false
		}
	case "/hooks/", "/hook/", "/integration/":
		if value.end-value.begin < minToken || !hasDigit(s.text[value.begin:value.end]) {
			return false
		}
	}
	return s.hide(value, Mark)
}

// beginKey matches the first line of a private key.
var beginKey = regexp.MustCompile(`^-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----`)

// privateKey hides a private key, even if its end is missing.
func (s *scanner) privateKey(at int) bool {
	begin := beginKey.FindString(s.after(at, 80))
	if begin == "" {
		return false
	}
	end := strings.Replace(begin, "BEGIN", "END", 1)
	if found := strings.Index(s.text[at:], end); found >= 0 {
		return s.hide(span{at, at + found + len(end)}, Mark)
	}
	return s.hide(span{at, len(s.text)}, Mark)
}

// startsWith reports whether a text begins with a lower-case word, ignoring the text's case.
func startsWith[T string | []byte](text T, word string) bool {
	if len(text) < len(word) {
		return false
	}
	for i := range len(word) {
		if lower(text[i]) != word[i] {
			return false
		}
	}
	return true
}

func lower(c byte) byte {
	if c >= 'A' && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
