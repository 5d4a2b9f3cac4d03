package proc

import (
	"os"
	"sync"
)

// Hostname returns the machine's name; "" when it has none.
var Hostname = sync.OnceValue(func() string {
	name, _ := os.Hostname()
	return name
})
