package cli

import "runtime/debug"

// Tests collect garbage a quarter as often, as in make test, which costs up to 200 MB.
func init() { debug.SetGCPercent(400) }
