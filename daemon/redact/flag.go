package redact

import (
	"regexp"
	"slices"
	"strings"
)

// shortFlag matches "-p", which many programs take a password by, and the flags
// that are followed by "user:password".
var shortFlag = regexp.MustCompile(`(^|[\s"'\x60(\[,])(-p|-u|-U|--user|--proxy-user)`)

// openFlags are the words that single-dash flags beginning with "-p" have: those
// of programs that write whole words so.
var openFlags = strings.Fields(`
	page parallel params parallelism passin passout password path paths peer peers period pid pidfile plain
	platform plugin plugins policy poll pool port ports pprof prefetch prefix pretty print priority process
	processes procs profile progress project prometheus protocol provider proxy publish purge
`)

// hideFlags replaces what follows the short flags of passwords.
func hideFlags(text string) string {
	var shown strings.Builder
	done := 0
	for done < len(text) {
		found := shortFlag.FindStringSubmatchIndex(text[done:])
		if found == nil {
			break
		}
		flag := text[done+found[4] : done+found[5]]
		begin, end := done+found[4], done+found[5]
		value, ok := flagValue(text, flag, begin, end)
		if !ok {
			shown.WriteString(text[done:end])
			done = end
			continue
		}
		shown.WriteString(text[done:value.begin])
		shown.WriteString(Mark)
		done = value.end
	}
	shown.WriteString(text[done:])
	return shown.String()
}

// flagValue returns what to hide of the value of the short flag at text[begin:end];
// false when there is nothing.
func flagValue(text, flag string, begin, end int) (value span, ok bool) {
	at := end
	if parted := nextWord.FindStringIndex(text[end:]); parted != nil {
		at = end + parted[1]
	} else if strings.HasPrefix(text[end:], "=") {
		at++
	} else if flag == "-p" && isOpenFlag(text[end-1:]) || strings.HasPrefix(flag, "--") {
		return span{}, false
	}
	value = wordAt(text, begin, at, false)
	if flag != "-p" {
		user, _, found := strings.Cut(text[value.begin:value.end], ":")
		if !found {
			return span{}, false
		}
		value.begin += len(user) + 1
	}
	return value, value.end > value.begin
}

// isOpenFlag reports whether a text begins with a word of openFlags.
func isOpenFlag(text string) bool {
	word := text[:len(text)-len(strings.TrimLeft(text, "abcdefghijklmnopqrstuvwxyz"))]
	return slices.Contains(openFlags, word)
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
