//go:build linux || darwin

package requantize_test

import (
	"fmt"
	"testing"

	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/requantize"
	"github.com/graphrun/graphrun/internal/machine"
)

// TestDigests compares the code with the committed digests.
func TestDigests(t *testing.T) {
	d := jittest.NewDigests(t, "testdata/amd64.sum")
	for _, cpu := range jittest.AMD64Sets() {
		for _, signed := range []bool{false, true} {
			if f, err := requantize.Compile(signed, cpu); err == nil {
				d.Add(fmt.Sprintf("%v signed %v", cpu, signed), f)
			} else if cpu.Has(machine.Vector512) {
				t.Error(err)
			}
		}
	}
	d.Compare()
}
