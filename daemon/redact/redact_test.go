package redact

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"testing"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"pgregory.net/rapid"
)

// commands lists arguments with a secret and their redacted forms.
var commands = []struct{ arguments, shown []string }{
	{[]string{"worker", "--password", "SECRET", "-v"}, []string{"worker", "--password", Mark, "-v"}},
	{[]string{"worker", "--token=SECRET", "-v"}, []string{"worker", "--token=" + Mark, "-v"}},
	{[]string{"worker", "-secret", "SECRET"}, []string{"worker", "-secret", Mark}},
	{[]string{"worker", "DB_PASSWORD=SECRET", "-v"}, []string{"worker", "DB_PASSWORD=" + Mark, "-v"}},
	{[]string{"env", "API_KEY=SECRET", "worker"}, []string{"env", "API_KEY=" + Mark, "worker"}},
	{[]string{"docker", "run", "--env=API_KEY=SECRET", "worker"}, []string{"docker", "run", "--env=API_KEY=" + Mark, "worker"}},
	{[]string{"docker", "run", "-eAPI_KEY=SECRET", "worker"}, []string{"docker", "run", "-eAPI_KEY=" + Mark, "worker"}},
	{[]string{"mysql", "-p", "SECRET", "shop"}, []string{"mysql", "-p", Mark, "shop"}},
	{[]string{"curl", "-u", "shop:SECRET", "http://127.0.0.1"}, []string{"curl", "-u", "shop:" + Mark, "http://127.0.0.1"}},
	{[]string{"curl", "-H", "X-Api-Key: SECRET"}, []string{"curl", "-H", "X-Api-Key: " + Mark}},
	{[]string{"curl", "-H", "Authorization: Bearer SECRET"}, []string{"curl", "-H", "Authorization: " + Mark}},
	{[]string{"worker", "--key", "SECRET"}, []string{"worker", "--key", Mark}},
}

func TestArguments(t *testing.T) {
	for _, command := range append(slices.Clone(commands), []struct{ arguments, shown []string }{
		{[]string{"mysql", "-phunter2", "shop"}, []string{"mysql", "-p" + Mark, "shop"}},
		{[]string{"worker", "amqp://shop:SECRET@rabbit:5672/", "-v"}, []string{"worker", "amqp://redacted@rabbit:5672/", "-v"}},
		{[]string{"sh", "-c", "DB_PASSWORD=SECRET exec worker -v"}, []string{"sh", "-c", "DB_PASSWORD=" + Mark + " exec worker -v"}},
		{[]string{"bash", "-ec", "export API_KEY='SECRET'; exec worker"}, []string{"bash", "-ec", "export API_KEY='" + Mark + "'; exec worker"}},
		{[]string{"worker", "--token-file=/b", "--password-file", "/a", "-port", "9100"}, []string{"worker", "--token-file=/b", "--password-file", "/a", "-port", "9100"}},
		{[]string{"", "--queue", "jobs"}, []string{"", "--queue", "jobs"}},
	}...) {
		if got := Arguments(command.arguments); !slices.Equal(got, command.shown) {
			t.Errorf("Arguments(%q)\n   = %q\nwant %q", command.arguments, got, command.shown)
		}
	}
}

// TestNoArgumentIsShown checks that a secret argument is hidden, whatever it contains.
func TestNoArgumentIsShown(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		command := rapid.SampledFrom(commands).Draw(t, "command")
		secret := "b" + rapid.StringN(8, 20, -1).Draw(t, "secret")
		given := make([]string, len(command.arguments))
		for i, argument := range command.arguments {
			given[i] = strings.ReplaceAll(argument, "SECRET", secret)
		}
		if shown := Arguments(given); !slices.Equal(shown, command.shown) {
			t.Fatalf("Arguments(%q)\n   = %q\nwant %q", given, shown, command.shown)
		}
	})
}

func TestJSON(t *testing.T) {
	encoded, err := json.Marshal(map[string]any{
		"query":  `sum(x{token="hunter2", queue="jobs"}) > 5`,
		"select": map[string]string{"token": "hunter2", "queue": "jobs"},
		"events": []string{"uses --password hunter2", "fine"},
		"count":  5, "labels": map[string]any{"hpad.metrics.0.select.api_key": "hunter2", "quoted \"key\"": true, "token": nil},
		"password": "",
	})
	if err != nil {
		t.Fatal(err)
	}
	var got map[string]any
	shown := JSON(encoded)
	if err := json.Unmarshal(shown, &got); err != nil || strings.Contains(string(shown), "hunter2") {
		t.Fatalf("JSON() = %s: %v", shown, err)
	}
	want := map[string]any{
		"query":  `sum(x{token="<redacted>", queue="jobs"}) > 5`,
		"select": map[string]any{"token": Mark, "queue": "jobs"},
		"events": []any{"uses --password " + Mark, "fine"},
		"count":  5.0, "labels": map[string]any{"hpad.metrics.0.select.api_key": Mark, "quoted \"key\"": true, "token": nil},
		"password": "",
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("JSON =\n%v\nwant\n%v", got, want)
	}
	for given, want := range map[string]string{
		`{"name":"DB_PASSWORD","value":"hunter2"}`:                `{"name":"DB_PASSWORD","value":"<redacted>"}`,
		`{"token":{"value":"hunter2","ttl":5}}`:                   `{"token":{"value":"<redacted>","ttl":5}}`,
		`{"tokens":["hunter2",{"a":["hunter2"]}],"a":"b"}`:        `{"tokens":["<redacted>",{"a":["<redacted>"]}],"a":"b"}`,
		`{"command":["worker","--token","hunter2","-v"]}`:         `{"command":["worker","--token","<redacted>","-v"]}`,
		`{"log":"{\"password\":[\"hunter2\"]}"}`:                  `{"log":"{\"password\":<redacted>}"}`,
		`{"name":"redis_key_size","value":"5","token_count":"5"}`: `{"name":"redis_key_size","value":"5","token_count":"5"}`,
	} {
		shown := string(JSON([]byte(given)))
		if shown = strings.NewReplacer(`\u003c`, "<", `\u003e`, ">").Replace(shown); shown != want {
			t.Errorf("JSON(%s) = %s, want %s", given, shown, want)
		}
	}
	for _, plain := range []string{
		`{"a":"b","c":["d\"e"],"f":{}}`, `{"name":"auth-service","status":{"reason":"Paused"},"inputs":[{"query":"up"}],"kind":"nomad"}`,
	} {
		if got := string(JSON([]byte(plain))); got != plain {
			t.Errorf("JSON(%s) = %s, want no change", plain, got)
		}
	}
}

// FuzzJSON checks that JSON stays valid and keeps its structure.
func FuzzJSON(f *testing.F) {
	f.Add("token", `x{token="a\"b`)
	f.Add("a\"b", "-p hunter2 \xff")
	f.Add("", "postgres://a:b@c")
	f.Add("pass\u2028word", "<key>\n\\/bot12:abc\t\"-p x\" p\x00wd=1")
	f.Fuzz(func(t *testing.T, key, text string) {
		encoded, err := json.Marshal(map[string]any{"list": []any{text, 1, map[string]string{key: text}}})
		if err != nil {
			t.Skip()
		}
		var before, after map[string][]any
		if err := json.Unmarshal(encoded, &before); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(JSON(encoded), &after); err != nil {
			t.Fatalf("JSON(%s) = %s: %v", encoded, JSON(encoded), err)
		}
		given, shown := before["list"], after["list"]
		if len(shown) != 3 || shown[0] != Text(given[0].(string)) {
			t.Fatalf("JSON of %v = %v", given, shown)
		}
		for name, inner := range given[2].(map[string]any) {
			if shown[2].(map[string]any)[name] != Value(name, inner.(string)) {
				t.Fatalf("JSON of %v = %v", given, shown)
			}
		}
	})
}

type stringer struct{ text string }

func (s stringer) String() string { return s.text }

func TestWriter(t *testing.T) {
	for _, encoder := range []zapcore.Encoder{zapcore.NewJSONEncoder(zap.NewProductionEncoderConfig()), zapcore.NewConsoleEncoder(zap.NewDevelopmentEncoderConfig())} {
		var out bytes.Buffer
		log := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(Writer(&out)), zapcore.InfoLevel)).With(zap.String("query", `x{token="hunter2"}`))
		log.Warn("started with --token hunter2",
			zap.NamedError("err", fmt.Errorf("query: %w", &url.Error{Op: "Get", URL: "http://u:hunter2@h", Err: errors.New("refused")})),
			zap.String("token", "hunter2"), zap.Stringer("target", stringer{"API_KEY=hunter2"}), zap.Strings("arguments", []string{"PASSWORD=hunter2", "-v"}),
			zap.ByteString("stack", []byte("main.go: token=hunter2")), zap.Any("labels", map[string]any{"api_key": "hunter2", "queue": "jobs", "token": map[string]any{"value": "hunter2"}}),
			zap.Any("config", struct{ Password, User string }{"hunter2", "shop"}), zap.Int("replicas", 3))
		shown := out.String()
		if strings.Contains(shown, "hunter2") || strings.Count(shown, "\n") != 1 || !strings.HasSuffix(shown, "\n") {
			t.Errorf("log = %s", shown)
		}
		for _, want := range []string{"refused", "jobs", "-v", "main.go", Mark, `"replicas":`, "started with", "shop"} {
			if !strings.Contains(shown, want) {
				t.Errorf("log = %s, want it to contain %q", shown, want)
			}
		}
	}
}

func BenchmarkJSON(b *testing.B) {
	one := `{"name":"checkout","reference":"prod/checkout/api","kind":"nomad","created":"2026-01-01T00:00:00Z","spec":{"min_replicas":2,"max_replicas":40},"status":{"conditions":[{"type":"AbleToScale","status":"True","reason":"ReadyForNewScale","message":"recommended size matches current size"},{"type":"ScalingActive","status":"True","reason":"ValidMetricFound","message":"the HPA was able to successfully calculate a replica count from external metric queue(nil)"}]},"inputs":[{"source":"prom","query":"sum by (queue) (rabbitmq_queue_messages_ready)","select":{"queue":"checkout"}}]},`
	whole := []byte("[" + strings.TrimSuffix(strings.Repeat(one, 1000), ",") + "]")
	b.SetBytes(int64(len(whole)))
	for b.Loop() {
		JSON(whole)
	}
}

// TestReadSecretsAreHidden checks that a secret that hpad has read is hidden without a name beside it.
func TestReadSecretsAreHidden(t *testing.T) {
	KeepEnvironment([]string{"NOMAD_TOKEN=0a1b-From-Environment", "LOG_FORMAT=Json-Lines-1"})
	for _, text := range []string{"echo 0a1b-From-Environment", "x0a1b-From-Environmentx: expired"} {
		if shown := Text(text); strings.Contains(shown, "Environment") || !strings.Contains(shown, Mark) {
			t.Errorf("Text(%s) = %s", text, shown)
		}
	}
	if shown := Arguments([]string{"worker", "0a1b-From-Environment"}); shown[1] != Mark {
		t.Errorf("Arguments = %q", shown)
	}
	if shown := string(JSON([]byte(`{"a":"0a1b-From-Environment"}`))); strings.Contains(shown, "Environment") {
		t.Errorf("JSON = %s", shown)
	}
	if shown := Text("Json-Lines-1"); shown != "Json-Lines-1" {
		t.Errorf("a variable without a secret name is shown as %s", shown)
	}
}
