package nomad

import (
	"fmt"
	"strconv"
	"time"

	"github.com/hpad/hpad/daemon/config"
)

// Measured sizes and rates, see docs/ha.md: the bytes that an autoscaler takes in a variable, the
// bytes of a page, and the number of pages per second that a Nomad cluster with one or three
// servers on two busy cores can write.
const (
	bytesEach      = 300
	bytesPage      = 32 << 10
	pagesPerSecond = 20
)

// A write may take TTL/writeShare: a third of the lease.
const writeShare = 3

// Check returns a [config.Error] if Nomad's variables are too slow for a configuration. This is
// the case if writing the state of all autoscalers would take longer than a write may take.
func Check(c *config.Config) error {
	shared, _ := c.Movable()
	autoscalers := map[string]int{}
	for _, a := range c.Autoscalers {
		autoscalers[a.Target.Fleet]++
	}
	count, pages := 0, 0
	for _, fleet := range shared {
		count += autoscalers[fleet]
		pages += 1 + autoscalers[fleet]*bytesEach/bytesPage
	}
	takes, may := time.Duration(pages)*time.Second/pagesPerSecond, c.HA.TTL/writeShare
	if takes <= may {
		return nil
	}
	return config.Error{Key: "ha.store", Value: strconv.Quote("nomad"), Detail: fmt.Sprintf(
		"Nomad variables are too slow for %d autoscalers: writing all %d variables takes about %s, and the limit is a third of ha.ttl, %s; use etcd, or a longer ttl",
		count, pages, takes.Round(time.Second), may.Round(time.Millisecond))}
}
