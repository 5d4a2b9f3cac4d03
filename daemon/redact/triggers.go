package redact

import (
	"regexp"
	"strings"
)

// nameWords are the triggers of names, in lower case: each secret name contains one.
var nameWords = strings.Fields(`
	pass pwd pw secret token cred auth key sig sas jwt cookie bearer otp psk sid dsn sess pin
`)

// tokenPrefixes precede at least minToken characters of a token. The facts are from the rules
// of gitleaks and the documentation of the issuers.
var tokenPrefixes = strings.Fields(`
		gho_ ghp_ ghs_ ghu_ ghr_ github_pat_ glpat- gldt- glft- glsoat- glrt- glcbt- glptt- glagent- glimt- glffct- gloas- GR1348941
		xoxa- xoxb- xoxc- xoxd- xoxe- xoxe. xoxo- xoxp- xoxr- xoxs- xapp- AIza ya29. GOCSPX- ABSK bedrock-api-key-
		sk- sk_ rk_live_ rk_test_ rk_prod_ whsec_ hvs. hvb. hvr. npm_ pypi-AgE rubygems_ dop_v1_ doo_v1_ dor_v1_ SG. eyJ ZXlK
		shpat_ shpca_ shppa_ shpss_ sq0atp- sq0csp- EAAA dckr_pat_ dckr_oat_ dp.pt. dp.st. dp.ct. dp.sa. dp.scim. dp.audit. PMAK- lin_api_
		ntn_ figd_ hf_ pul- gsk_ xai- r8_ pplx- tskey- fo1_ fm1a_ fm1r_ fm2_ nvapi- AGE-SECRET-KEY-1 ops_eyJ glc_ glsa_ NRAK- NRII- NRJS- NRIQ- NRRA-
		sntrys_ sntryu_ CLOJARS_ ATATT ATCTT ATBB FLWSECK fio-u- HRKU- duffel_live_ duffel_test_ dt0c01. dt0s01. s-s4t2ud- s-s4t2af-
		shippo_live_ shippo_test_ xkeysib- xsmtpsib- v1.0- pscale_tkn_ pscale_pw_ pscale_oauth_ rdme_ sbp_ sb_secret_ tfp_ nfp_ phx_
		sm_aat_ sm_pat_ sm_sat_ tk-us- sha256~ CCIPAT_ bkua_ apify_api_ tvly- lsv2_ dnkey- AQVN access-production- access-development- access-sandbox-
	`)

// awsKey matches the ID of an access key of AWS.
var awsKey = regexp.MustCompile(`^A(?:3T[A-Z0-9]|KIA|SIA|BIA|CCA)[A-Z0-9]{16}`)

// webhooks precede the secret part of the URLs of webhooks.
var webhooks = []string{"/webhooks/", "/webhookb2/", "hooks.slack.com/", "hooks.zapier.com/", "/hooks/", "/bot"}

// rule hides a secret at the position of a trigger. It returns false if there is no secret.
type rule func(s *scanner, at int) bool

// trigger is a word, in lower case, with the rule to try at its position.
type trigger struct {
	word string
	rule rule
}

// table has the triggers by their first two letters.
type table [1 << 10][]trigger

// pair returns the index of two letters in a table, whatever their case.
func pair(a, b byte) int { return int(a&31)<<5 | int(b&31) }

func tableOf(list ...trigger) *table {
	var t table
	for _, one := range list {
		at := pair(one.word[0], one.word[1])
		t[at] = append(t[at], one)
	}
	return &t
}

// isIn reports whether a text contains one of the words.
func isIn[T string | []byte](t *table, text T) bool {
	for i := 0; i+1 < len(text); i++ {
		for _, one := range t[pair(text[i], text[i+1])] {
			if startsWith(text[i:], one.word) {
				return true
			}
		}
	}
	return false
}

var (
	triggers = tableOf(allTriggers()...)
	// names are the triggers of names alone.
	names = tableOf(triggersOf(nil, nameWords...)...)
)

// triggersOf returns words as the triggers of a rule.
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
		list = append(list, trigger{strings.ToLower(prefix), token(prefix, least)})
	}
	list = append(list, triggersOf((*scanner).awsKey, "akia", "asia", "abia", "acca", "a3t")...)
	for _, word := range webhooks {
		list = append(list, trigger{word, func(s *scanner, at int) bool { return s.webhook(at, word) }})
	}
	list = append(list, triggersOf((*scanner).name, nameWords...)...)
	list = append(list, trigger{"code=", (*scanner).name})
	list = append(list, triggersOf((*scanner).scheme, "bearer", "basic", "negotiate")...)
	for _, word := range []string{"-p", "-u", "--user", "--proxy-user"} {
		list = append(list, trigger{word, func(s *scanner, at int) bool { return s.shortFlag(at, at+len(word)) }})
	}
	return list
}

// minToken is the minimum number of characters after the prefix of a token.
const minToken = 16

// token returns the rule that hides tokens with a prefix.
func token(prefix string, least int) rule {
	return func(s *scanner, at int) bool {
		if at < s.wordy || !strings.HasPrefix(s.text[at:], prefix) || at > 0 && isAlphanumeric(s.text[at-1]) {
			return false
		}
		begin := at + len(prefix)
		end := begin
		for end < len(s.text) && isTokenPart(s.text[end]) {
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

func (s *scanner) awsKey(at int) bool {
	found := awsKey.FindString(s.after(at, 20))
	return found != "" && (at == 0 || !isAlphanumeric(s.text[at-1])) && s.hide(span{at, at + len(found)}, Mark)
}

// isBot matches the token of a bot in a URL of Telegram.
var isBot = regexp.MustCompile(`^\d+:`)

// webhook hides the rest of the URL of a webhook. Anybody who knows it can post.
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
	case "/hooks/":
		if value.end-value.begin < minToken || !hasDigit(s.text[value.begin:value.end]) {
			return false
		}
	}
	return s.hide(value, Mark)
}

// beginKey matches the first line of a private key.
var beginKey = regexp.MustCompile(`^-----BEGIN [A-Z0-9 ]*PRIVATE KEY[A-Z ]*-----`)

// privateKey hides a private key, whose end may be cut off.
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

// startsWith reports whether a text begins with a word in lower case.
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
