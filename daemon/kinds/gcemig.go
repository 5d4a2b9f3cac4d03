//go:build !nogce

package kinds

import "github.com/hpad/hpad/targets/gcemig"

func init() { Fleets[gcemig.Kind.Name] = gcemig.Kind }
