package azurevmss

import (
	"bytes"
	"testing"
)

// TestTrimmed: names that users give stay, and what is no document is left to the
// client.
func TestTrimmed(t *testing.T) {
	for name, test := range map[string]struct{ document, want string }{
		"a set": {
			`{"value": [{"id": "x", "sku": {"capacity": 3}, "tags": {"storageProfile": "fast", "secrets": "none"}, "properties": {
				"virtualMachineProfile": {"storageProfile": {"osDisk": {}}, "networkProfile": {"healthProbe": {"id": "p"}, "networkInterfaceConfigurations": [{}]},
				"extensionProfile": {"extensions": [{"properties": {"type": "ApplicationHealthLinux", "settings": {"port": 80}}}]}}}}], "nextLink": "n"}`,
			`{"value":[{"id":"x","sku":{"capacity":3},"tags":{"storageProfile":"fast","secrets":"none"},"properties":{` +
				`"virtualMachineProfile":{"networkProfile":{"healthProbe":{"id":"p"}},` +
				`"extensionProfile":{"extensions":[{"properties":{"type":"ApplicationHealthLinux"}}]}}}}],"nextLink":"n"}`,
		},
		"nothing":    {`null`, `null`},
		"unfinished": {`{"value":[{"id":"x"`, ""},
		"two":        {`{} {}`, ""},
		"no JSON":    {`<html>`, ""},
		"empty":      {``, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := trimmed([]byte(test.document))
			if string(bytes.TrimSpace(got)) != test.want || (err != nil) != (test.want == "") {
				t.Errorf("trimmed() = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}
