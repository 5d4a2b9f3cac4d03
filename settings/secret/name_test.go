package secret

import "testing"

func TestNamed(t *testing.T) {
	for _, name := range []string{
		"password", "DB_PASSWORD", "PGPASSWORD", "MYSQL_PWD", "dbPass", "pgpass", "API_KEY", "apikey", "X-Api-Key", "accountKey", "GITHUB_TOKEN",
		"secret_key_base", "AWS_SECRET_ACCESS_KEY", "ssh-key", "Authorization", "basic_auth", "sig", "credentials", "hpad.metrics.0.select.token", "KEY",
		"session", "session_id", "JSESSIONID", "accesskey", "Proxy-Authorization", "password[]", "vault_secret_id",
	} {
		if !Named(name) {
			t.Errorf("Named(%s) = false", name)
		}
	}
	for _, name := range []string{
		"", "key", "queue", "token_file", "password-file", "key_file", "client_certificate_file", "secrets_dir", "credentials_path", "password-stdin",
		"routing_key", "cache_key", "author", "authority_host", "bypass", "monkey", "keyspace", "design", "user", "basic_auth_users", "subscription", "sigma",
		"redis_key_size", "auth_tokens_total", "token_count", "secret_name", "token_type", "kms_key_id", "password_length", "secretKeyRef", "session_timeout",
	} {
		if Named(name) {
			t.Errorf("Named(%s) = true", name)
		}
	}
}
