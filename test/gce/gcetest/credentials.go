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

// Account is the service account that the credentials belong to.
const Account = "hpad@shop-prod.iam.gserviceaccount.com"

// accountKey is the account's private key, which all servers share.
var accountKey = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// CredentialsFile writes the service account's credentials to a file and returns its path.
func (s *Server) CredentialsFile(t testing.TB) string {
	t.Helper()
	return s.UniverseFile(t, "googleapis.com")
}

// UniverseFile writes credentials for the sovereign cloud with the given domain. Clients of a
// sovereign cloud sign their own tokens.
func (s *Server) UniverseFile(t testing.TB, domain string) string {
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
		"token_uri": s.tokenURL, "universe_domain": domain,
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

// ExpireCredentials revokes all tokens and makes the server reject requests for new ones until it
// is called with false.
func (s *Server) ExpireCredentials(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.expired = on
	clear(s.tokens)
}

// tokenGrant is the grant type of service accounts.
const tokenGrant = "urn:ietf:params:oauth:grant-type:jwt-bearer"

// giveToken handles a service account's token request.
func (s *Server) giveToken(w http.ResponseWriter, r *http.Request) {
	reject := func(code, description string) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(http.StatusBadRequest)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": code, "error_description": description})
	}
	if err := r.ParseForm(); err != nil || r.PostForm.Get("grant_type") != tokenGrant {
		reject("unsupported_grant_type", "Invalid grant_type: "+r.PostForm.Get("grant_type"))
		return
	}
	if err := s.checkAssertion(r.PostForm.Get("assertion")); err != nil {
		reject("invalid_grant", "Invalid JWT Signature: "+err.Error())
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.expired {
		reject("invalid_grant", "Invalid grant: account not found")
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{"access_token": s.issue(Account), "expires_in": 3599, "token_type": "Bearer"})
}

// issue returns a new token for an account.
func (s *Server) issue(account string) string {
	s.issued++
	token := fmt.Sprintf("ya29.%d", s.issued)
	s.tokens[token] = account
	return token
}

// checkAssertion verifies the signed assertion in a token request.
func (s *Server) checkAssertion(assertion string) error {
	c, err := verify(assertion)
	switch {
	case err != nil:
		return err
	case c.Audience != s.tokenURL:
		return fmt.Errorf("the audience is %q", c.Audience)
	}
	return nil
}

// claims is the payload of a JWT.
type claims struct {
	Issuer   string `json:"iss"`
	Subject  string `json:"sub"`
	Audience string `json:"aud"`
	Scope    string `json:"scope"`
	Expires  int64  `json:"exp"`
}

// verify checks the signature and the claims of a JWT.
func verify(signed string) (claims, error) {
	var c claims
	parts := strings.Split(signed, ".")
	if len(parts) != 3 {
		return c, errors.New("want three parts")
	}
	signature, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil {
		return c, err
	}
	key, err := accountKey()
	if err != nil {
		return c, err
	}
	sum := sha256.Sum256([]byte(parts[0] + "." + parts[1]))
	if err := rsa.VerifyPKCS1v15(&key.PublicKey, crypto.SHA256, sum[:], signature); err != nil {
		return c, err
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return c, err
	}
	if err := json.Unmarshal(payload, &c); err != nil {
		return c, err
	}
	switch {
	case c.Issuer != Account:
		return c, fmt.Errorf("the issuer is %q", c.Issuer)
	case !strings.Contains(c.Scope, "https://www.googleapis.com/auth/"):
		return c, fmt.Errorf("the scope is %q", c.Scope)
	case time.Now().After(time.Unix(c.Expires, 0)):
		return c, errors.New("expired")
	}
	return c, nil
}

// caller returns the account that made the request, or "".
func (s *Server) caller(r *http.Request) string {
	token, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	switch {
	case s.open:
		return Account
	case !ok:
		return ""
	case strings.Count(token, ".") == 2 && !s.expired: // self-signed by the account
		if c, err := verify(token); err == nil && c.Subject == Account && c.Audience == "" {
			return Account
		}
	}
	return s.tokens[token]
}

// Acting is a service account that Account may impersonate.
const Acting = "scaler@shop-prod.iam.gserviceaccount.com"

// OnlyActing rejects calls by accounts other than Acting.
func (s *Server) OnlyActing() { s.locked(func() { s.onlyActing = true }) }

// serveActing handles a request for a token that impersonates a different service account.
func (s *Server) serveActing(w http.ResponseWriter, r *http.Request) {
	path, ok := strings.CutSuffix(r.URL.Path, ":generateAccessToken")
	account, ours := strings.CutPrefix(path, "/v1/projects/-/serviceAccounts/")
	if !ok || !ours || r.Method != http.MethodPost {
		s.report("unknown call %s %s", r.Method, r.URL.Path)
		http.NotFound(w, r)
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.caller(r) != Account:
		writeStatus(w, http.StatusUnauthorized, "UNAUTHENTICATED", "Request had invalid authentication credentials.")
		return
	case account != Acting:
		writeStatus(w, http.StatusForbidden, "PERMISSION_DENIED", "Permission 'iam.serviceAccounts.getAccessToken' denied on resource (or it may not exist).")
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{
		"accessToken": s.issue(account), "expireTime": time.Now().Add(time.Hour).UTC().Format(time.RFC3339),
	})
}

// writeStatus writes an error in the format of APIs that are newer than Compute Engine's.
func writeStatus(w http.ResponseWriter, code int, status, message string) {
	writeJSON(w, code, map[string]any{"error": map[string]any{"code": code, "message": message, "status": status}})
}
