package secret

import (
	"regexp"
	"slices"
	"strings"
)

// Named reports whether the value of a key, variable, flag, header or label with this name might be
// secret. Names of files, counts, times and kinds are not secret, even if they contain a word such
// as "token".
func Named(name string) bool {
	lower := strings.ToLower(strings.TrimRight(name, "[]."))
	contains := func(part string) bool { return strings.Contains(lower, part) }
	if !slices.ContainsFunc(triggers, contains) {
		return false
	}
	words := wordsOf(name)
	if len(words) == 0 || slices.ContainsFunc(plainSuffixes, func(end string) bool { return strings.HasSuffix(lower, end) }) || slices.Contains(plainWords, words[len(words)-1]) {
		return false
	}
	if name == "KEY" || slices.ContainsFunc(secretParts, contains) {
		return true
	}
	for i, word := range words {
		kind, isKey := strings.CutSuffix(strings.TrimSuffix(word, "s"), "key")
		switch {
		case slices.Contains(secretWords, word),
			word == "session" && i == len(words)-1,
			strings.HasSuffix(word, "pass") && word != "bypass" && word != "compass",
			isKey && kind == "" && i > 0 && !slices.Contains(plainKeys, words[i-1]),
			isKey && slices.Contains(KeyKinds, kind):
			return true
		}
	}
	return false
}

// triggers lists parts of secret names. A name without these parts is not secret and needs no
// further check.
var triggers = strings.Fields("pass pwd pw secret token cred auth key sig sas jwt cookie bearer otp psk sid dsn session")

// secretParts lists texts that make a name secret wherever they occur in it.
var secretParts = strings.Fields("passw passphrase passcode secret token credential authorization signature pwd sessid session_id sessionid requirepass")

// secretWords lists words that make a name secret if they are complete words of the name.
var secretWords = strings.Fields("pw auth creds cred sig sas jwt cookie cookies bearer otp totp psk sid dsn masterauth")

// KeyKinds lists the prefixes that make a word ending in "key" secret, as in "apikey". plainKeys
// lists the words after which a separate word "key" is not secret, as in "group_key".
var (
	KeyKinds  = strings.Fields("access account api app auth client encryption license master private secret service shared sharedaccess signing ssh storage")
	plainKeys = strings.Fields("cache foreign group label map object partition primary public routing sort unknown")
)

// plainSuffixes lists endings of names that are not secret: names of files, directories, users and
// identifiers.
var plainSuffixes = strings.Fields("file files dir path stdin user users username key_id keyid")

// plainWords lists words that show, at the end of a name, that it is not secret: the names of
// metrics and of properties of secrets.
var plainWords = strings.Fields(`
	age algorithm arn attempts audience avg bucket bytes class count counter created depth domain duration enabled endpoint engine errors
	expiration expired expires expiry failures field fields format hits info interval issued issuer kind latency len length lifetime limit
	limits max method min misses mode name names namespace operations policies policy provider quota rate ratio ref refresh remaining
	replicas requests required rotation scope scopes seconds seen size state status store sum time timeout total ttl type types uri url
	usage used version versions
`)

var (
	humps      = regexp.MustCompile(`([a-z0-9])([A-Z])`)
	separators = regexp.MustCompile(`[^a-z0-9\x{80}-\x{10FFFF}]+`)
)

// wordsOf splits a name into lower-case words. For example, "accountKey" consists of two words.
func wordsOf(name string) []string {
	parted := strings.ToLower(humps.ReplaceAllString(name, "${1}_$2"))
	return slices.DeleteFunc(separators.Split(parted, -1), func(word string) bool { return word == "" })
}
