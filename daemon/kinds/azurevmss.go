//go:build !noazure

package kinds

import "github.com/hpad/hpad/targets/azurevmss"

func init() { Fleets[azurevmss.Kind.Name] = azurevmss.Kind }
