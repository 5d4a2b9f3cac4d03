package web

import (
	"bytes"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	toolkit "github.com/prometheus/exporter-toolkit/web"
	"go.yaml.in/yaml/v2"
	"golang.org/x/crypto/bcrypt"
)

// The values of client_auth_type that verify certificates.
const (
	requireAndVerify = "RequireAndVerifyClientCert"
	verifyIfGiven    = "VerifyClientCertIfGiven"
)

// maxFileSize is the maximum size of a web config in bytes.
const maxFileSize = 1 << 20

// Check validates the web config at path, including its certificates, keys and hashes. The error
// contains neither the path nor secrets from the file.
func Check(path string) error {
	if err := check(path); err != nil {
		return scrub(err)
	}
	return nil
}

func check(path string) error {
	c, err := read(path)
	if err != nil {
		return err
	}
	for _, user := range slices.Sorted(maps.Keys(c.Users)) {
		if err := checkHash(user, string(c.Users[user])); err != nil {
			return err
		}
	}
	if err := toolkit.Validate(path); err != nil {
		return err
	}
	return checkClientCA(c.TLSConfig)
}

// checkHash returns an error if the hash of a user's password is invalid.
func checkHash(user, hash string) error {
	if _, err := bcrypt.Cost([]byte(hash)); err != nil {
		return fmt.Errorf("basic_auth_users: the hash of user %q: %w; create a hash with: hpad hash-password", user, err)
	}
	return nil
}

// checkClientCA rejects two configurations that the toolkit accepts: a CA file without
// certificates, which would reject every client, and verification without a CA file, which would
// accept certificates from all CAs that the system trusts.
func checkClientCA(c toolkit.TLSConfig) error {
	text := []byte(c.ClientCAsText)
	if c.ClientCAs != "" {
		var err error
		if text, err = os.ReadFile(c.ClientCAs); err != nil {
			return err
		}
	}
	switch {
	case len(text) > 0 && !x509.NewCertPool().AppendCertsFromPEM(text):
		return errors.New("tls_server_config: client_ca_file (or client_ca) contains no PEM certificate")
	case !hasClientCA(c) && verifies(c.ClientAuth):
		return fmt.Errorf("tls_server_config: client_auth_type is %s without client_ca_file: all CAs that the system trusts would be accepted; set client_ca_file", c.ClientAuth)
	}
	return nil
}

func hasClientCA(c toolkit.TLSConfig) bool { return c.ClientCAs != "" || c.ClientCAsText != "" }

// read reads the web config at path, but not the files that it names.
func read(path string) (*toolkit.Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("not a regular file")
	}
	file, err := os.Open(path)
	if err != nil {
		return nil, cause(err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, maxFileSize+1))
	if err != nil {
		return nil, cause(err)
	}
	if len(text) > maxFileSize {
		return nil, fmt.Errorf("larger than %d bytes", maxFileSize)
	}
	// The fields that have defaults are not used here, so zero values are sufficient.
	c := new(toolkit.Config)
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(text), c); err != nil {
		if invalid, ok := errors.AsType[*yaml.TypeError](err); ok {
			err = errors.New(strings.Join(invalid.Errors, "; ")) // on one line
		}
		return nil, err
	}
	c.TLSConfig.SetDirectory(filepath.Dir(path))
	return c, nil
}

// cause removes the path of the file from err. It adds advice if the file does not exist or is not
// readable.
func cause(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; create it or name another file", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; make it readable by the user that hpad runs as", err)
	}
	return err
}

// The quoted values in YAML errors. A value can contain a backquote.
var (
	snippet = regexp.MustCompile("(?s)`.*?`( into )|`[^`]*`")
	anchor  = regexp.MustCompile(`(?s)unknown anchor '.*?' referenced`)
)

// Scrub removes quoted values from a message about a server or its web config, because a misplaced
// value can be a password.
func Scrub(text string) string {
	text = snippet.ReplaceAllString(text, "`…`$1")
	return anchor.ReplaceAllString(text, "unknown anchor '…' referenced; quote a value that starts with *")
}

func scrub(err error) error {
	if text := err.Error(); Scrub(text) != text {
		return errors.New(Scrub(text))
	}
	return err
}
