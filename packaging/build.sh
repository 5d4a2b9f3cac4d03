#!/usr/bin/env bash
# build.sh implements "make packages" and "make image". For each architecture, it builds
# hpad and its packages, dist/hpad*.deb, .rpm, .tar.gz or .image.tar (container images).
# *.modules.json lists the modules and build settings, and SHA256SUMS the checksums. It needs
# Go, git and GNU tar. Builds of the same commit are identical.
#
#   DIST               the output directory (dist)
#   ARCHITECTURES      in Go's notation (amd64 arm64)
#   FORMATS            any of deb, rpm, tar.gz and image.tar (deb rpm tar.gz)
#   VERSION            the version (by default from version.sh)
#   SOURCE_DATE_EPOCH  the time of all files (by default the time of the commit)
set -euo pipefail
cd "$(dirname "$0")/.."

dist=${DIST:-dist}
FORMATS=${FORMATS:-deb rpm tar.gz}
VERSION=${VERSION:-$(packaging/version.sh)}
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH
umask 022

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir -p "$dist"
for format in $FORMATS modules.json; do
	rm -f "$dist"/hpad[-_]*."$format"
done

# hpad OUTPUT [FLAG]... builds the program.
hpad() {
	doing "building hpad for $(go env GOARCH)"
	CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X github.com/hpad/hpad/daemon/api.version=$VERSION" -o "$@" ./cmd/hpad
}

# doing STEP prints the current step.
doing() { echo "$1 ..." >&2; }

# compressed FILE writes FILE.gz without a timestamp.
compressed() { gzip -9n -c "$1" >"$1.gz"; }

doing "building the packaging tools"
(cd packaging/nfpm && go build -mod=readonly -o "$work/nfpm" github.com/goreleaser/nfpm/v2/cmd/nfpm)
(cd packaging/image && go build -mod=readonly -o "$work/image" .)

# Files that are the same for all architectures are generated with the program for this host.
tree=$work/tree
mkdir -p "$tree/man1" "$tree/man5"
here=$work/$(go env GOARCH)/hpad
hpad "$here"
"$here" man --date "$(date --utc --date="@$SOURCE_DATE_EPOCH" +%F)" "$tree/man1"
cat docs/config.md docs/config-keys.md | go run ./packaging/manual "$VERSION" "$SOURCE_DATE_EPOCH" >"$tree/man5/hpad.toml.5"
for page in "$tree"/man?/*; do
	compressed "$page" && rm "$page"
done
for shell in bash zsh fish; do
	"$here" completion "$shell" >"$tree/completion.$shell"
done
packaging/notices.sh >"$tree/third-party-licenses"
compressed "$tree/third-party-licenses"
cp CHANGELOG.md "$tree/changelog"
compressed "$tree/changelog"
cat >"$tree/changelog.yaml" <<END
- semver: "$VERSION"
  date: $(date --utc --date="@$SOURCE_DATE_EPOCH" +%FT%TZ)
  packager: The hpad authors <https://github.com/hpad/hpad/issues>
  deb: {urgency: medium, distributions: [stable]}
  changes:
    - note: See /usr/share/doc/hpad/changelog.gz.
END

# archive ARCHITECTURE builds the .tar.gz.
archive() {
	local name=hpad-$VERSION-linux-$1
	local root=$work/$name
	mkdir -p "$root"/{man,completions,systemd,share}
	cp "$work/$1/hpad" README.md CHANGELOG.md LICENSE packaging/hpad.toml "$tree/third-party-licenses" "$root/"
	cp "$tree"/man?/* "$root/man/"
	for shell in bash zsh fish; do
		cp "$tree/completion.$shell" "$root/completions/hpad.$shell"
	done
	cp -R systemd/. "$root/systemd/"
	cp -R configs docs "$root/"
	find "$root" -name '*.go' -delete
	rmdir "$root/share"
	tar --directory "$work" --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner \
		--mode=u=rwX,go=rX --format=gnu --create "$name" | gzip -n >"$dist/$name.tar.gz"
	rm -r "$root"
}

for GOARCH in ${ARCHITECTURES:-amd64 arm64}; do
	export GOARCH
	[ -e "$work/$GOARCH/hpad" ] || hpad "$work/$GOARCH/hpad"
	go version -m -json "$work/$GOARCH/hpad" >"$dist/hpad-$VERSION-linux-$GOARCH.modules.json"
	sed -e "s|\${BINARY}|$work/$GOARCH/hpad|; s|\${TREE}|$tree|; s|\${VERSION}|$VERSION|; s|\${GOARCH}|$GOARCH|" \
		packaging/nfpm.yaml >"$work/nfpm.yaml"
	for format in $FORMATS; do
		doing "building the $format for $GOARCH"
		case $format in
		image.tar)
			"$work/image" -architecture "$GOARCH" -version "$VERSION" -revision "$(git rev-parse HEAD)" -created "$SOURCE_DATE_EPOCH" \
				-binary "$work/$GOARCH/hpad" -config packaging/image/hpad.toml -license LICENSE -notices "$tree/third-party-licenses" \
				-output "$dist/hpad-$VERSION-linux-$GOARCH.image.tar"
			;;
		tar.gz) archive "$GOARCH" ;;
		*) "$work/nfpm" package --config "$work/nfpm.yaml" --packager "$format" --target "$dist/" ;;
		esac
	done
done
(cd "$dist" && sha256sum hpad[-_]* >SHA256SUMS)
ls "$dist"
