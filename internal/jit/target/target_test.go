package target_test

import (
	"strings"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/target"
	amd64 "github.com/graphrun/graphrun/internal/jit/target/amd64/writer"
	arm64 "github.com/graphrun/graphrun/internal/jit/target/arm64/writer"
	"github.com/graphrun/graphrun/internal/machine"
)

// TestDeclare declares registers with one role, with two roles, and registers that do not exist.
func TestDeclare(t *testing.T) {
	for name, w := range map[string]func() target.Writer{
		"amd64": func() target.Writer { return amd64.New(machine.AVX2, 4, false) },
		"arm64": func() target.Writer { return arm64.New(4, false) },
	} {
		for _, tc := range []struct {
			second target.Register
			want   string
		}{
			{target.GReg(2), ""}, {target.VReg(1), ""},
			{target.GReg(1), "general register 1 is declared twice, as a sum and as a count"},
			{target.VReg(3), "vector register 3 is declared twice, as a sum and as a count"},
			{target.GReg(target.GeneralRegisters), "general register 13 does not exist"},
		} {
			w := w()
			w.Declare("a sum", target.GReg(1), target.VReg(3))
			w.Declare("a count", tc.second)
			w.Return()
			switch _, err := w.Finish(); {
			case tc.want == "" && err != nil, tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)):
				t.Errorf("%s, %v: %v, want %q", name, tc.second, err, tc.want)
			}
		}
	}
}
