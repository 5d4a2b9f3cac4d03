package redact

import (
	"regexp"
	"strings"
)

// hideShapes hides texts that are secret whatever their names are. The cheap test before each
// expression skips most texts.
func hideShapes(text string) string {
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
	return hidePlainURLs(text)
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
