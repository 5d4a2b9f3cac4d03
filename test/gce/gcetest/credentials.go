package gcetest

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

// Account is the service account that the credentials are of.
const Account = "hpad@shop-prod.iam.gserviceaccount.com"

// accountKey is the private key of the service account of all servers.
var accountKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// CredentialsFile writes the service account's credentials, for which the server
// gives tokens, and answers the file's path.
func (s *Server) CredentialsFile(t testing.TB) string {
	t.Helper()
	key, err := accountKey()
	if err != nil {
		t.Fatal(err)
	}
	der, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(map[string]string{
		"type": "service_account", "project_id": s.Project, "client_email": Account, "client_id": "1",
		"private_key_id": "key-1", "private_key": string(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: der})),
		"token_uri": s.tokenURL, "universe_domain": "googleapis.com",
	})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "credentials.json")
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// ExpireCredentials makes every token worthless and gives no more, or gives them
// again.
func (s *Server) ExpireCredentials(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = on
	clear(s.tokens)
}

// tokenGrant is what a client of a service account sends.
const tokenGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// giveToken answers the request of a service account for a token.
func (s *Server) giveToken(w http.ResponseWriter, r *http.Request) {
	refuse := func(code, description string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description})
	}
	if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != tokenGrant {
		refuse("unsupported_grant_type", "Invalid grant_type: "+r.PostForm.Get("grant_type"))
		return
	}
	if err := s.checkAssertion(r.PostForm.Get("assertion")); err != nil {
		refuse("invalid_grant", "Invalid JWT Signature: "+err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired {
		refuse("invalid_grant", "Invalid grant: account not found")
		return
	}
	s.issued++
	token := fmt.Sprintf("ya29.%d", s.issued)
	s.tokens[token] = true
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": token, "expires_in": 3599, "token_type": "Bearer"})
}

// checkAssertion verifies a signed claim of the service account.
func (s *Server) checkAssertion(assertion string) error {
	parts := strings.Split(assertion, ".")
	if len(parts) != 3 {
		return errors.New("it has no three parts")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return err
	}
	key, err := accountKey()
	if err != nil {
		return err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		return err
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return err
	}
	var claims struct {
		Issuer   string `json:"iss"`
		Audience string `json:"aud"`
		Scope    string `json:"scope"`
		Expires  int64  `json:"exp"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return err
	}
	switch {
	case claims.Issuer != Account:
		return fmt.Errorf("the issuer is %q", claims.Issuer)
	case claims.Audience != s.tokenURL:
		return fmt.Errorf("the audience is %q", claims.Audience)
	case !strings.Contains(claims.Scope, "https://www.googleapis.com/auth/"):
		return fmt.Errorf("the scope is %q", claims.Scope)
	case time.Now().After(time.Unix(claims.Expires, 0)):
		return errors.New("it is over")
	}
	return nil
}

// authorized says whether a request has a token that is worth something. The caller
// holds the lock.
func (s *Server) authorized(r *http.Request) bool {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return s.open || ok && s.tokens[token]
}
