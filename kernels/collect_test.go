package kernels_test

import (
	"runtime/debug"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/testsize"
)

// Tests collect garbage a quarter as often, as in make test, which saves a third of their time and costs 200 MB. They
// keep compiled loops, because most tests compile those of all ops.
func init() {
	debug.SetGCPercent(400)
	jit.KeepAll = !testsize.All()
}
