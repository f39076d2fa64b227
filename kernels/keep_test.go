package kernels_test

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/testsize"
)

// Compiled loops are kept, because most tests compile those of all ops.
func init() { jit.KeepAll = !testsize.All() }
