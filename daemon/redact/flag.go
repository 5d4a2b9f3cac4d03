package redact

import (
	"regexp"
	"slices"
	"strings"
)

// openFlags lists single-dash flags that begin with "p", without the dash, of programs that use
// whole words as flags. The text after "-p" in such a flag is not a password.
var openFlags = strings.Fields(`
	page parallel params parallelism passin passout password path paths peer peers period pid pidfile plain
	platform plugin plugins policy poll pool port ports pprof prefetch prefix pretty print priority process
	processes procs profile progress project prometheus protocol provider proxy publish purge
`)

// port matches a port mapping after "-p", which is not a password.
var port = regexp.MustCompile(`^\d{1,5}(?::\d{1,5})?$`)

// maxUser limits the length of the user name before a password, in bytes.
const maxUser = 128

// shortFlag hides the value of the flag at text[begin:end]. The flag is "-p", which many programs
// use for a password, or a flag whose value is "user:password".
func (s *scanner) shortFlag(begin, end int) bool {
	flag := s.text[begin:end]
	if flag[1] == 'P' || begin > 0 && !isBlank(s.text[begin-1]) && strings.IndexByte("\"'`([,", s.text[begin-1]) < 0 {
		return false
	}
	at := end
	if parted := nextWord.FindString(s.after(end, maxOperator)); parted != "" {
		at += len(parted)
	} else if strings.HasPrefix(s.text[end:], "=") {
		at++
	} else if flag == "-p" && isOpenFlag(s.after(end-1, 16)) || strings.HasPrefix(flag, "--") {
		return false
	}
	if flag == "-p" {
		value := s.word(begin, at, false)
		return !port.MatchString(s.after(value.begin, min(16, value.end-value.begin))) && s.hide(value, Mark)
	}
	colon := strings.IndexAny(s.after(at, maxUser), ": \t\n")
	if colon < 0 || s.text[at+colon] != ':' {
		return false
	}
	value := s.word(begin, at, false)
	value.begin = at + colon + 1
	return s.hide(value, Mark)
}

// isOpenFlag reports whether a text begins with a word of openFlags.
func isOpenFlag(text string) bool {
	word := text[:len(text)-len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz"))]
	return slices.Contains(openFlags, word)
}

// script matches the shell flag that precedes a script.
var script = regexp.MustCompile(`^-[a-z]*c$`)

// Arguments returns the arguments of a command without secrets. An argument after "-c" is treated
// as a script. In other arguments, everything after a secret name is hidden.
func Arguments(arguments []string) []string {
	shown := make([]string, len(arguments))
	for i, argument := range arguments {
		before := ""
		if i > 0 {
			before = arguments[i-1]
		}
		switch {
		case argument == "":
		case before == "-p", isSecretFlag(before):
			shown[i] = Mark
		case slices.Contains([]string{"-u", "-U", "--user", "--proxy-user"}, before) && strings.Contains(argument, ":"):
			user, _, _ := strings.Cut(argument, ":")
			shown[i] = user + ":" + Mark
		default:
			shown[i] = hide(argument, !script.MatchString(before))
		}
	}
	return shown
}

// isSecretFlag reports whether an argument is a flag whose value, the next argument, may be secret.
func isSecretFlag(argument string) bool {
	name := strings.TrimLeft(argument, "-")
	return name != argument && !strings.ContainsAny(name, "=: \t\n") && (Named(name) || name == "key")
}
