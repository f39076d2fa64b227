//go:build linux || darwin

package vector

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/tensor"
)

// TestFence: code with non-temporal stores ends with a fence, unless Unfenced is set because the caller does that.
func TestFence(t *testing.T) {
	b := expr.NewBuilder(tensor.Float32)
	c, err := b.Build(b.Real(b.Emit(expr.Neg, b.Load(0))))
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		opts Options
		want bool
	}{{Options{NonTemporal: true}, true}, {Options{NonTemporal: true, Unfenced: true}, false}, {Options{}, false}} {
		code, err := assemble(&expr.Loop{Code: c, Uniform: []bool{false}}, machine.AVX512, tc.opts, true)
		if err != nil {
			t.Fatal(err)
		}
		if got := strings.Contains(code.Listing, "SFENCE"); got != tc.want {
			t.Errorf("%+v: fenced: %v", tc.opts, got)
		}
	}
	Fence()
}
