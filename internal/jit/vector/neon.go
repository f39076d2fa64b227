package vector

import (
	"errors"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target/arm64"
)

// assembleNEON compiles a loop whose functions are expanded for arm64. There are no non-temporal stores, and
// prefetching is left to the processor.
func assembleNEON(l *expr.Loop, opts Options, list bool) (jit.Code, error) {
	lanes, err := lanesOf(l)
	if err != nil {
		return jit.Code{}, err
	}
	code, err := arm64.Compile(lanes, opts.registers, list)
	if errors.Is(err, arm64.ErrUnsupported) {
		return jit.Code{}, unsupported("%v", err)
	}
	return code, err
}
