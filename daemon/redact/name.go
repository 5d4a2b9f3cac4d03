package redact

import (
	"slices"
	"strings"
)

// Named reports whether the value of a key, variable, flag, header or label with this name may be
// secret. Names of files, counts, times and kinds are not secret, even if they contain a word such
// as "token".
func Named(name string) bool {
	if !isIn(names, name) {
		return false
	}
	name = strings.TrimRight(name, "[].")
	lower := strings.ToLower(name)
	if slices.ContainsFunc(openEnds, func(end string) bool { return strings.HasSuffix(lower, end) }) {
		return false
	}
	words := wordsOf(name)
	if len(words) == 0 || slices.Contains(openWords, words[len(words)-1]) || strings.HasSuffix(lower, "key_id") || strings.HasSuffix(lower, "keyid") {
		return false
	}
	if slices.ContainsFunc(secretParts, func(part string) bool { return strings.Contains(lower, part) }) {
		return true
	}
	for i, word := range words {
		switch {
		case slices.Contains(secretWords, word):
			return true
		case strings.HasSuffix(word, "pass") && !slices.Contains([]string{"bypass", "compass"}, word):
			return true
		case i > 0 && (word == "key" || word == "keys") && !slices.Contains(openKeys, words[i-1]):
			return true
		case slices.Contains(keyKinds, strings.TrimSuffix(word, "key")) && strings.HasSuffix(word, "key"):
			return true
		case word == "session" && (i == len(words)-1 || words[i+1] == "id"), word == "pin" && len(words) == 1:
			return true
		}
	}
	return name == "KEY"
}

// secretParts lists lower-case texts that make a name secret wherever they occur in it.
var secretParts = []string{
	"passw", "passphrase", "passcode", "passin", "passout", "secret", "token", "credential", "authorization", "signature", "pwd", "sessid", "sessionid",
}

// secretWords lists words that make a name secret if one of its words is equal.
var secretWords = []string{
	"pw", "auth", "creds", "cred", "sig", "sas", "jwt", "cookie", "cookies", "bearer", "otp", "totp", "psk", "sid", "dsn", "requirepass", "masterauth",
}

// keyKinds lists the words before "key" in names of secret keys, such as "apikey", or "API key: …"
// in a sentence.
var keyKinds = []string{
	"access", "account", "api", "app", "application", "auth", "client", "consumer", "deploy", "encryption", "license", "master", "private", "secret", "service",
	"shared", "sharedaccess", "signing", "ssh", "storage", "subscription",
}

// openKeys lists the words before "key" in names that are not secret.
var openKeys = []string{"cache", "foreign", "group", "label", "map", "object", "partition", "primary", "public", "routing", "sort"}

// openEnds lists the last words in names of files, directories and users.
var openEnds = []string{"file", "files", "dir", "path", "stdin", "user", "users", "username"}

// openWords lists the last words in names of metrics and of properties of secrets.
var openWords = strings.Fields(`
	age algorithm arn attempts audience avg bucket buckets bytes class count counter counts created depth domain duration enabled endpoint engine errors
	evictions expiration expired expires expiry failures field fields format hits info interval issued issuer kind lag latency len length lifetime limit
	limits lookups manager max method min misses mode name names namespace operations policies policy provider quota rate ratio reader ref
	refresh remaining renewals renewed replicas requests required revoked rotation rotations samples scope scopes seconds seen size state status store
	sum time timeout total ttl type types uri url usage used version versions
`)

// wordsOf splits a name into lower-case words. For example, "accountKey" consists of two words.
func wordsOf(name string) []string {
	var apart strings.Builder
	for i := range len(name) {
		if i > 0 && name[i] >= 'A' && name[i] <= 'Z' && (name[i-1] >= 'a' && name[i-1] <= 'z' || name[i-1] >= '0' && name[i-1] <= '9') {
			apart.WriteByte(' ')
		}
		apart.WriteByte(lower(name[i]))
	}
	return strings.FieldsFunc(apart.String(), func(r rune) bool {
		return r == ' ' || r == '_' || r == '-' || r == '.' || r == '[' || r == ']' || r == '/'
	})
}
