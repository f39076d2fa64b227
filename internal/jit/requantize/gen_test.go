//go:build linux || darwin

package requantize_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/requantize"
	"github.com/graphrun/graphrun/internal/machine"
)

// call has the arguments of a call. nextOut and nextSum are the distances between rows in bytes, and at has the offset
// of each operand in its memory.
type call struct {
	signed           bool
	columns, rows    int
	nextOut, nextSum int
	at               []int
}

func random(rng *rand.Rand, _ machine.Features) jittest.Call {
	c := &call{signed: rng.IntN(2) == 0, columns: 1 + rng.IntN(requantize.Columns), rows: 1 + rng.IntN(20)}
	if rng.IntN(3) == 0 {
		c.columns = requantize.Columns
	}
	c.nextOut, c.nextSum = c.columns+rng.IntN(9), 4*(c.columns+rng.IntN(9))
	return c
}

// Place fills memory with sums of all magnitudes, and with scales; some scales lead to saturation or NaN.
func (c *call) Place(rng *rand.Rand, mem [][]byte, atStart bool) []int {
	c.at = make([]int, len(mem))
	for k, n := range []int{(c.rows-1)*c.nextOut + c.columns, (c.rows-1)*c.nextSum + 4*c.columns, 4 * c.columns, 4} {
		if !atStart {
			c.at[k] = len(mem[k]) - n
		}
		for i := c.at[k]; k == requantize.Sums && i < c.at[k]+n; i += 4 {
			*(*int32)(unsafe.Pointer(&mem[k][i])) = int32(rng.Uint32()) >> rng.IntN(32)
		}
	}
	odd := []float32{float32(math.NaN()), float32(math.Inf(1)), -1e30, 0, 0.5}
	for i := range c.columns {
		v := float32(math.Exp(rng.NormFloat64() * 5))
		if rng.IntN(8) == 0 {
			v = odd[rng.IntN(len(odd))]
		}
		*(*float32)(unsafe.Pointer(&mem[requantize.Scales][c.at[requantize.Scales]+4*i])) = v
	}
	point := int32(rng.IntN(256))
	if c.signed {
		point -= 128
	}
	*(*int32)(unsafe.Pointer(&mem[requantize.ZeroPoint][c.at[requantize.ZeroPoint]])) = point
	return c.at
}

func (c *call) Fill(a *jit.Args) {
	a.Rows = c.rows
	a.Step[requantize.ColumnMask] = int(^uint64(0) >> (requantize.Columns - c.columns))
	a.Step[requantize.NextOut], a.Step[requantize.NextSums] = c.nextOut, c.nextSum
}

func (c *call) Compile(cpu machine.Features) (*jit.Func, error) {
	return requantize.Compile(c.signed, cpu)
}

// Reference computes the results in Go.
func (c *call) Reference(mem [][]byte) {
	point := float64(*(*int32)(unsafe.Pointer(&mem[requantize.ZeroPoint][c.at[requantize.ZeroPoint]])))
	least := 0.0
	if c.signed {
		least = -128
	}
	for row := range c.rows {
		for i := range c.columns {
			sum := *(*int32)(unsafe.Pointer(&mem[requantize.Sums][c.at[requantize.Sums]+row*c.nextSum+4*i]))
			scale := *(*float32)(unsafe.Pointer(&mem[requantize.Scales][c.at[requantize.Scales]+4*i]))
			v := math.RoundToEven(float64(float32(sum)*scale)) + point
			level := 0
			if v == v {
				level = int(min(max(v, least), least+255))
			}
			mem[requantize.Out][c.at[requantize.Out]+row*c.nextOut+i] = uint8(level)
		}
	}
}

// Format prints the parameters of the call.
func (c *call) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "signed %v, %d by %d", c.signed, c.rows, c.columns)
}

// TestRandom compares random calls with Go.
func TestRandom(t *testing.T) {
	if !machine.HostFeatures().Has(machine.Vector512) || jit.Available() != nil {
		t.Skip("no machine code")
	}
	jittest.CheckCallsFor(t, machine.AVX512, requantize.ZeroPoint+1, 1, 500, random)
}

// TestForms compares the instructions with Go's assembler.
func TestForms(t *testing.T) {
	jittest.CheckListings(t, 2, 20, func(seed uint64, cpu machine.Features) (string, error) {
		if !cpu.Has(machine.Vector512) {
			return "", nil
		}
		c, err := requantize.Compile(seed == 1, cpu)
		if err != nil {
			return "", err
		}
		return c.Listing(), nil
	})
}

// TestRefused checks the error for a processor without AVX-512.
func TestRefused(t *testing.T) {
	if _, err := requantize.Compile(true, machine.AVX2); err == nil || !strings.Contains(err.Error(), "avx2") {
		t.Error(err)
	}
}
