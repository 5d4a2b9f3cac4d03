package config

import (
	"bytes"
	"fmt"
	"slices"

	"github.com/BurntSushi/toml"

	"github.com/hpad/hpad/daemon/redact"
	"github.com/hpad/hpad/settings/secret"
)

// Redacted returns the configuration as TOML, as written and without secrets. It removes the values
// of headers, environment variables and keys with secret names, except file names. It also removes
// secrets from commands, queries and URLs.
func (c *Config) Redacted() string {
	whole := map[string]any{}
	for path, written := range c.tables() {
		section, name := cutLast(path)
		table := written.table()
		switch inner, _ := whole[section].(map[string]any); {
		case section == "" && len(table) > 0:
			whole[name] = table
		case section != "" && inner == nil:
			whole[section] = map[string]any{name: table}
		case section != "":
			inner[name] = table
		}
	}
	return encoded(whole)
}

// Redacted returns the autoscaler's table in the same form as Config.Redacted.
func (a *Autoscaler) Redacted(name string) string {
	return encoded(map[string]any{autoscalersKey: map[string]any{name: a.Written.table()}})
}

func encoded(whole map[string]any) string {
	var text bytes.Buffer
	encoder := toml.NewEncoder(&text)
	encoder.Indent = ""
	if err := encoder.Encode(withoutSecrets("", whole)); err != nil {
		return fmt.Sprintf("# the configuration cannot be written as TOML: %v\n", err)
	}
	return text.String()
}

// keepSecrets keeps the values of keys with secret names in fleets, sources and receivers, so that
// hpad also hides them in the output of instances and servers.
func (c *Config) keepSecrets() {
	for path, written := range c.tables() {
		if section, _ := cutLast(path); section != autoscalersKey {
			keepSecrets(written.table())
		}
	}
}

func keepSecrets(table map[string]any) {
	for key, value := range table {
		switch value := value.(type) {
		case map[string]any:
			keepSecrets(value)
		case string:
			if redact.Named(key) {
				secret.Keep(value)
			}
		}
	}
}

// secretTables lists the names of tables with values that may be secret.
var secretTables = []string{"headers", "env", "environment"}

// withoutSecrets returns a TOML value of the same shape without secrets.
func withoutSecrets(key string, value any) any {
	switch value := value.(type) {
	case map[string]any:
		table := make(map[string]any, len(value))
		for name := range value {
			shown := withoutSecrets(name, value[name])
			if text, ok := value[name].(string); ok && slices.Contains(secretTables, key) {
				shown = redact.Value("secret", text)
			}
			table[name] = shown
		}
		return table
	case []any:
		return withoutSecretElements(key, value)
	case string:
		return redact.Value(key, value)
	}
	return value
}

// withoutSecretElements returns an array without secrets. An array of strings may be a command.
func withoutSecretElements(key string, elements []any) []any {
	array := make([]any, len(elements))
	texts := make([]string, len(elements))
	for i := range elements {
		texts[i], _ = elements[i].(string)
	}
	arguments := redact.Arguments(texts)
	for i := range elements {
		array[i] = withoutSecrets(key, elements[i])
		if _, isText := elements[i].(string); isText && !redact.Named(key) {
			array[i] = arguments[i]
		}
	}
	return array
}
