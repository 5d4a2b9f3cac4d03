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

// The values of client_auth_type that have certificates verified.
const (
	requireAndVerify = "RequireAndVerifyClientCert"
	verifyIfGiven    = "VerifyClientCertIfGiven"
)

// maxFileSize bounds a web config, in bytes.
const maxFileSize = 1 << 20

// Check says what is wrong with the web config at path: whether it can be read,
// has only keys that there are, and names certificates, keys and hashes that can
// be used. The error is about the file without naming it, and quotes no secret
// that is in it.
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

// checkHash returns an error unless what is written for a user is the hash of a
// password.
func checkHash(user, hash string) error {
	if _, err := bcrypt.Cost([]byte(hash)); err != nil {
		return fmt.Errorf("basic_auth_users: the hash of user %q: %w; make one with: htpasswd -nB %s", user, err, user)
	}
	return nil
}

// checkClientCA refuses authorities of clients that the toolkit would take
// silently: a file without any certificate, which lets nobody in, and no file at
// all, which lets in everybody whose certificate is of an authority that the
// system trusts.
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
		return errors.New("tls_server_config: client_ca_file (or client_ca) has no certificate in PEM form")
	case !hasClientCA(c) && verifies(c.ClientAuth):
		return fmt.Errorf("tls_server_config: client_auth_type is %s without client_ca_file: every authority that the system trusts could make clients; name the one that makes yours", c.ClientAuth)
	}
	return nil
}

func hasClientCA(c toolkit.TLSConfig) bool { return c.ClientCAs != "" || c.ClientCAsText != "" }

// read reads the web config at path without looking at the files that it names.
func read(path string) (*toolkit.Config, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, cause(err)
	}
	if !info.Mode().IsRegular() {
		return nil, errors.New("it is not a regular file")
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
		return nil, fmt.Errorf("it has more than %d bytes", maxFileSize)
	}
	// Zero values stand for the defaults here: nothing that has one is looked at.
	c := new(toolkit.Config)
	if err := yaml.UnmarshalStrict(bytes.TrimSpace(text), c); err != nil {
		if mistakes, ok := errors.AsType[*yaml.TypeError](err); ok {
			err = errors.New(strings.Join(mistakes.Errors, "; ")) // on one line
		}
		return nil, err
	}
	c.TLSConfig.SetDirectory(filepath.Dir(path))
	return c, nil
}

// cause returns what is wrong with a file that the error names already.
func cause(err error) error {
	if failed, ok := errors.AsType[*fs.PathError](err); ok {
		err = failed.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("%w; create it or name another file", err)
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w; let the user that hpad runs as read it", err)
	}
	return err
}

// How errors of YAML quote the value that they are about, which may have a
// backquote in it, and the one that a value with * before it refers to.
var (
	snippet = regexp.MustCompile("(?s)`.*?`( into )|`[^`]*`")
	anchor  = regexp.MustCompile(`(?s)unknown anchor '.*?' referenced`)
)

// Scrub returns a message about a server or its web config without the values
// that it quotes: one in the wrong place may be a password.
func Scrub(text string) string {
	text = snippet.ReplaceAllString(text, "`…`$1")
	return anchor.ReplaceAllString(text, "unknown anchor '…' referenced; a text that begins with * belongs in quotes")
}

func scrub(err error) error {
	if text := err.Error(); Scrub(text) != text {
		return errors.New(Scrub(text))
	}
	return err
}
