package redact

import (
	"regexp"
	"slices"
	"strings"
)

// port matches a port mapping after "-p", which is not a password.
var port = regexp.MustCompile(`^\d{1,5}(?::\d{1,5})?$`)

// maxUser bounds the name of the user before a password, in bytes.
const maxUser = 128

// shortFlag hides the value of the flag at text[begin:end]: "-p", which many programs take
// a password by, or a flag that is followed by "user:password".
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
	} else {
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

// script matches the flag of shells that is followed by a script.
var script = regexp.MustCompile(`^-[a-z]*c$`)

// Arguments returns the arguments of a command with what may be secret replaced. An
// argument that follows "-c" is a script; of any other one that has a secret name
// everything after the name is hidden.
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

// isSecretFlag reports whether an argument is a flag whose value, the argument
// after it, may be secret.
func isSecretFlag(argument string) bool {
	name := strings.TrimLeft(argument, "-")
	return name != argument && !strings.ContainsAny(name, "=: \t\n") && (Named(name) || name == "key")
}
