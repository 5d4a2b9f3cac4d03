package azurevmss

import (
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/hpad/hpad/targets"
	"github.com/hpad/hpad/targets/targettest"
	"github.com/hpad/hpad/test/azure/azuretest"
)

// complete adds what Azure says of every scale set beside what the imitation does.
var complete = strings.NewReplacer(
	`"virtualMachineProfile":{`, `"timeCreated":"2026-03-02T08:00:00.000000+00:00","uniqueId":"01234567-89ab-cdef-0123-456789abcdef",`+
		`"platformFaultDomainCount":1,"zoneBalance":false,"virtualMachineProfile":{`+
		`"storageProfile":{"imageReference":{"publisher":"Canonical","offer":"ubuntu-24_04-lts","sku":"server","version":"latest"},`+
		`"osDisk":{"osType":"Linux","caching":"ReadWrite","createOption":"FromImage","diskSizeGB":30,"managedDisk":{"storageAccountType":"Premium_LRS"}},"diskControllerType":"SCSI"},`+
		`"networkProfile":{"networkInterfaceConfigurations":[{"name":"nic0","properties":{"primary":true,"enableAcceleratedNetworking":true,"enableIPForwarding":false,"disableTcpStateTracking":false,`+
		`"dnsSettings":{"dnsServers":[]},"networkSecurityGroup":{"id":"/subscriptions/01234567-89ab-cdef-0123-456789abcdef/resourceGroups/shop/providers/Microsoft.Network/networkSecurityGroups/shop"},`+
		`"ipConfigurations":[{"name":"primary","properties":{"primary":true,"privateIPAddressVersion":"IPv4",`+
		`"subnet":{"id":"/subscriptions/01234567-89ab-cdef-0123-456789abcdef/resourceGroups/shop/providers/Microsoft.Network/virtualNetworks/shop/subnets/workers"},`+
		`"loadBalancerBackendAddressPools":[{"id":"/subscriptions/01234567-89ab-cdef-0123-456789abcdef/resourceGroups/shop/providers/Microsoft.Network/loadBalancers/shop/backendAddressPools/workers"}]}}]}}]},`+
		`"diagnosticsProfile":{"bootDiagnostics":{"enabled":true}},"securityProfile":{"uefiSettings":{"secureBootEnabled":true,"vTpmEnabled":true},"securityType":"TrustedLaunch"},`,
	`"osProfile":{`, `"osProfile":{"adminUsername":"azureuser","secrets":[],"allowExtensionOperations":true,"linuxConfiguration":{"disablePasswordAuthentication":true,`+
		`"ssh":{"publicKeys":[{"path":"/home/azureuser/.ssh/authorized_keys","keyData":"ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIAABAgMEBQYHCAkKCwwNDg8QERITFBUWFxgZGhscHR4f"}]},`+
		`"provisionVMAgent":true,"patchSettings":{"patchMode":"ImageDefault","assessmentMode":"ImageDefault"}},`,
)

// BenchmarkSnapshot reads scale sets of two machines each: 5,000 in a round in which
// nothing changed, and 1,000 in one that lists all machines.
func BenchmarkSnapshot(b *testing.B) {
	for _, bench := range []struct {
		name string
		sets int
		all  bool
	}{{"steady", 5000, false}, {"every machine", 1000, true}} {
		b.Run(bench.name, func(b *testing.B) {
			s := azuretest.New(b)
			var refs []targets.Ref
			for i := range bench.sets {
				group, name := fmt.Sprintf("group-%d", i%50), fmt.Sprintf("set-%d", i)
				s.Add(azuretest.Set{Group: group, Name: name, Capacity: 2})
				refs = append(refs, ref(group+"/"+name))
			}
			replay := &targettest.Replay{Handler: s, Complete: complete}
			server := httptest.NewTLSServer(replay)
			b.Cleanup(server.Close)
			s.URL = server.URL
			f := openFleet(b, testConfig(b, s, hasty+"addresses = \"none\"\n"), targets.Env{Store: &targettest.Store{}})
			round := func() {
				readings, err := f.Snapshot(b.Context(), refs)
				if err != nil {
					b.Fatal(err)
				}
				for ref, r := range readings {
					if r.Err != nil {
						b.Fatalf("%s: %v", ref, r.Err)
					}
				}
			}
			round()
			if !bench.all {
				f.config.ReadsPerSecond = 1_000_000 // no room for lists that could wait
			}
			replay.Rounds(b, 2*bench.sets, round)
		})
	}
}
