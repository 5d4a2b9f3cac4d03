// Command image writes hpad's container image as a file for "docker load" and "podman load". It
// needs no container engine and no registry, and its output is reproducible.
package main

import (
	"archive/tar"
	"bytes"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
	"golang.org/x/crypto/x509roots/fallback/bundle"
)

// user is the user and group of hpad.
const user = 65532

type input struct {
	architecture, version, revision string
	// created is the time of the image and of its files.
	created time.Time
	// binary, config, license and notices are the paths of files to include.
	binary, config, license, notices string
}

func main() {
	var in input
	var seconds int64
	flag.StringVar(&in.architecture, "architecture", "", "architecture in Go's notation, such as amd64")
	flag.StringVar(&in.version, "version", "", "version of hpad")
	flag.StringVar(&in.revision, "revision", "", "revision of the checkout")
	flag.Int64Var(&seconds, "created", 0, "creation time of the image, in `seconds` since 1970")
	flag.StringVar(&in.binary, "binary", "", "path of the program")
	flag.StringVar(&in.config, "config", "", "path of the configuration")
	flag.StringVar(&in.license, "license", "", "path of hpad's license")
	flag.StringVar(&in.notices, "notices", "", "path of the licenses of the contents")
	output := flag.String("output", "", "path of the image `file`")
	flag.Parse()
	in.created = time.Unix(seconds, 0).UTC()
	if err := write(in, *output); err != nil {
		fmt.Fprintln(os.Stderr, "image:", err)
		os.Exit(1)
	}
}

func write(in input, file string) error {
	tag, err := name.NewTag("hpad:" + tagOf(in.version))
	if err != nil {
		return fmt.Errorf("the name of the image: %w", err)
	}
	image, err := build(in)
	if err != nil {
		return fmt.Errorf("build the image: %w", err)
	}
	if err := tarball.WriteToFile(file, tag, image); err != nil {
		return fmt.Errorf("write the image: %w", err)
	}
	return nil
}

// tagOf returns the version as a tag, which cannot contain a plus sign.
func tagOf(version string) string {
	return string(bytes.ReplaceAll([]byte(version), []byte("+"), []byte("_")))
}

func build(in input) (v1.Image, error) {
	files, err := archive(in)
	if err != nil {
		return nil, err
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(files)), nil })
	if err != nil {
		return nil, err
	}
	image, err := mutate.Append(empty.Image, mutate.Addendum{
		Layer:   layer,
		History: v1.History{Created: v1.Time{Time: in.created}, CreatedBy: "hpad's packaging/image"},
	})
	if err != nil {
		return nil, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return nil, err
	}
	config = config.DeepCopy()
	config.OS, config.Architecture, config.Created = "linux", in.architecture, v1.Time{Time: in.created}
	id := strconv.Itoa(user)
	config.Config = v1.Config{
		User:         id + ":" + id,
		Env:          []string{"PATH=/usr/bin", "HOME=/var/lib/hpad"},
		Entrypoint:   []string{"/usr/bin/hpad"},
		Cmd:          []string{"run"},
		WorkingDir:   "/var/lib/hpad",
		Volumes:      map[string]struct{}{"/var/lib/hpad": {}},
		ExposedPorts: map[string]struct{}{"4720/tcp": {}},
		StopSignal:   "SIGTERM",
		Healthcheck: &v1.HealthConfig{
			Test:        []string{"CMD", "/usr/bin/hpad", "health", "--timeout", "4s"},
			Interval:    10 * time.Second,
			Timeout:     5 * time.Second,
			StartPeriod: 3 * time.Minute, // includes the full check of the state files
			Retries:     3,
		},
		Labels: map[string]string{
			"org.opencontainers.image.title":    "hpad",
			"org.opencontainers.image.version":  in.version,
			"org.opencontainers.image.revision": in.revision,
			"org.opencontainers.image.created":  in.created.Format(time.RFC3339),
			"org.opencontainers.image.licenses": "Apache-2.0",
			"org.opencontainers.image.source":   "https://github.com/hpad/hpad",
		},
	}
	return mutate.ConfigFile(image, config)
}

func archive(in input) ([]byte, error) {
	var buffer bytes.Buffer
	w := tar.NewWriter(&buffer)
	var failed error
	add := func(name string, mode int64, owner int, content []byte) {
		header := &tar.Header{
			Name: name, Mode: mode, Uid: owner, Gid: owner, Size: int64(len(content)), ModTime: in.created, Typeflag: tar.TypeReg, Format: tar.FormatGNU,
		}
		if content == nil {
			header.Typeflag = tar.TypeDir
		}
		if failed == nil {
			failed = w.WriteHeader(header)
		}
		if failed == nil {
			_, failed = w.Write(content)
		}
	}
	read := func(file string) []byte {
		content, err := os.ReadFile(file)
		if failed == nil {
			failed = err
		}
		return append([]byte{}, content...)
	}
	for _, directory := range []string{
		"etc/", "etc/hpad/", "etc/hpad/conf.d/", "etc/ssl/", "etc/ssl/certs/", "run/", "usr/", "usr/bin/", "usr/share/", "usr/share/doc/",
		"usr/share/doc/hpad/", "var/", "var/lib/", "var/cache/",
	} {
		add(directory, 0o755, 0, nil)
	}
	add("tmp/", 0o1777, 0, nil)
	add("run/hpad/", 0o750, user, nil)
	add("var/lib/hpad/", 0o700, user, nil)
	add("var/cache/hpad/", 0o755, user, nil)
	add("etc/passwd", 0o644, 0, fmt.Appendf(nil, "root:x:0:0:root:/:/sbin/nologin\nhpad:x:%d:%d:hpad:/var/lib/hpad:/sbin/nologin\n", user, user))
	add("etc/group", 0o644, 0, fmt.Appendf(nil, "root:x:0:\nhpad:x:%d:\n", user))
	add("etc/ssl/certs/ca-certificates.crt", 0o644, 0, authorities())
	add("etc/hpad/hpad.toml", 0o644, 0, read(in.config))
	add("usr/bin/hpad", 0o755, 0, read(in.binary))
	add("usr/share/doc/hpad/LICENSE", 0o644, 0, read(in.license))
	add("usr/share/doc/hpad/third-party-licenses", 0o644, 0, read(in.notices))
	if failed == nil {
		failed = w.Close()
	}
	return buffer.Bytes(), failed
}

// authorities returns the certificates of Mozilla's list, except certificates with trust
// restrictions, which a file cannot contain.
func authorities() []byte {
	var text []byte
	for root := range bundle.Roots() {
		if root.Constraint == nil {
			text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate})...)
		}
	}
	return text
}
