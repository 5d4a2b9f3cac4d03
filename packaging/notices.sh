#!/usr/bin/env bash
# notices.sh prints the licenses of Go, of all modules in hpad, and of third-party code in the
# page.
set -euo pipefail
cd "$(dirname "$0")/.."

echo "hpad contains the modules below, Go's standard library and uPlot, under these licenses."
{
	printf 'Go\t%s\t%s\n' "$(go env GOVERSION)" "$(go env GOROOT)"
	CGO_ENABLED=0 go list -deps -f '{{with .Module}}{{if not .Main}}{{.Path}}{{"\t"}}{{.Version}}{{"\t"}}{{.Dir}}{{end}}{{end}}' ./cmd/hpad | sort -u
} | while IFS=$'\t' read -r module version directory; do
	[ -n "$module" ] || continue
	mapfile -t files < <(find "$directory" -maxdepth 1 -type f \( -iname 'LICEN[CS]E*' -o -iname 'COPYING*' -o -iname 'NOTICE*' -o -iname 'PATENTS*' \) | sort)
	if [ ${#files[@]} = 0 ]; then
		# The license of a nested module is in the root of its repository.
		echo "notices.sh: $module $version has no license file in its directory" >&2
	fi
	for file in "${files[@]}"; do
		printf '\n==== %s %s: %s\n\n' "$module" "$version" "$(basename "$file")"
		cat "$file"
	done
done
printf '\n==== uPlot %s: LICENSE\n\n' "$(sed -n 's/^version=//p' daemon/page/uplot.sh)"
cat daemon/page/assets/uplot.LICENSE
