package settings

import "regexp"

// placeholder matches the variables of shells, Grafana, Helm and other template languages, of
// printf, and names in angle brackets from instructions.
var placeholder = regexp.MustCompile(`\$\{[A-Za-z_.][^}]*\}|\$\([A-Za-z_][^)]*\)|\$[A-Za-z_]\w*|\{\{.*?\}\}|\{%.*?%\}|<<.*?>>|` +
	`\[\[\s*\.?[A-Za-z_][\w.:-]*\s*\]\]|<[A-Za-z][\w.-]*>|%\([A-Za-z_]\w*\)[sdrq]|%[sdqv](?:[^A-Za-z0-9]|$)|%[G-Z_][A-Z0-9_]+%|%[A-Z_][A-Z0-9_]*[G-Z_][A-Z0-9_]*%|__[A-Z][A-Z0-9_]*__|<%.*?%>|^\{[A-Z][A-Z0-9_]+\}$|[#%]\{[A-Za-z_][^}]*\}|@@?[A-Z_][A-Z0-9_]+@@?`)

// Placeholder returns the first variable of a different tool in a text, such as "${HOST}" or
// "{{ .Values.host }}", or "". hpad does not expand variables.
func Placeholder(text string) string { return placeholder.FindString(text) }
