//go:build linux || darwin

package depthwise_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/depthwise"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
)

// byteCall is a [depthwise.ByteSpec] with the arguments of a call.
type byteCall struct {
	spec                  *depthwise.ByteSpec
	cpu                   machine.Features
	tiles, rows, channels int
	at                    []int
}

func drawBytes(rng *rand.Rand, cpu machine.Features, words bool) *byteCall {
	s := &depthwise.ByteSpec{Tile: 1 + rng.IntN(depthwise.MaxByteTile(cpu)), FlipSigns: rng.IntN(2) == 0,
		Signed: rng.IntN(2) == 0, WordProducts: words, Sums: rng.IntN(3) == 0}
	c := &byteCall{spec: s, cpu: cpu, tiles: 1 + rng.IntN(3), rows: 1 + rng.IntN(3),
		channels: 1 + rng.IntN(depthwise.ByteChannels(cpu))}
	s.SignedIn = tile.ReadsSigned(cpu, s.FlipSigns)
	if !cpu.Has(machine.Vector512) {
		s.Channels = c.channels % depthwise.ByteChannels(cpu)
	}
	for d := range 2 {
		s.Window[d], s.Stride[d], s.Dilation[d] = 1+rng.IntN(6), 1+rng.IntN(2), 1+rng.IntN(5)/4
	}
	if c.tiles > 1 {
		s.Overlap = rng.IntN(s.Tile)
	}
	pixel := c.channels + rng.IntN(3)
	width := (c.results()-1)*s.Stride[1] + (s.Window[1]-1)*s.Dilation[1] + 1
	s.InStride, s.OutStride = [2]int{width * pixel, pixel}, [2]int{c.results() * pixel * c.outSize(), pixel * c.outSize()}
	return c
}

// outSize returns the bytes of an element of the result.
func (c *byteCall) outSize() int {
	if c.spec.Sums {
		return 4
	}
	return 1
}

// wide returns the number of channels that are computed at once.
func (c *byteCall) wide() int { return depthwise.ByteChannels(c.cpu) }

// results returns the number of results of a row.
func (c *byteCall) results() int { return c.tiles*c.spec.Tile - c.spec.Overlap }

// Place fills memory with the operands.
func (c *byteCall) Place(rng *rand.Rand, mem [][]byte, atStart bool) []int {
	s := c.spec
	high := (c.rows-1)*s.Stride[0] + (s.Window[0]-1)*s.Dilation[0] + 1
	bytes := make([]int, len(mem))
	bytes[depthwise.In] = high*int(s.InStride[0]) - int(s.InStride[1]) + c.channels
	if s.Channels > 0 { // all of a vector is read
		bytes[depthwise.In] += c.wide() - c.channels
	}
	bytes[depthwise.Weights] = s.Window[1] * s.RowGroups() * 4 * c.wide()
	bytes[depthwise.Out] = c.rows*int(s.OutStride[0]) - int(s.OutStride[1]) + c.channels*c.outSize()
	bytes[depthwise.Bias], bytes[depthwise.Scales], bytes[depthwise.ZeroPoint] = 4*c.wide(), 4*c.wide(), 4
	c.at = make([]int, len(mem))
	for k, n := range bytes {
		if n > len(mem[k]) {
			return nil
		}
		if !atStart {
			c.at[k] = len(mem[k]) - n
		}
		for i := range n {
			mem[k][c.at[k]+i] = uint8(rng.Uint32())
		}
	}
	for i := range c.wide() {
		*argsSpill[int32](c, mem, depthwise.Bias, i) = int32(rng.IntN(1<<14)) - 1<<13
		*argsSpill[float32](c, mem, depthwise.Scales, i) = float32(rng.Float64() / 100)
	}
	*argsSpill[float32](c, mem, depthwise.Scales, 5) = float32(math.NaN())
	*argsSpill[int32](c, mem, depthwise.ZeroPoint, 0) = int32(rng.IntN(128))
	return c.at
}

func argsSpill[T any](c *byteCall, mem [][]byte, k, i int) *T {
	return (*T)(unsafe.Pointer(&mem[k][c.at[k]+4*i]))
}

// Reference computes the rows in Go. The rows of weights that pad groups are ignored.
func (c *byteCall) Reference(mem [][]byte) {
	s := c.spec
	least := 0.0
	if s.Signed {
		least = -128
	}
	for i := range c.rows * c.results() * c.wide() {
		place, col, row := i%c.wide(), i/c.wide()%c.results(), i/c.wide()/c.results()
		channel := depthwise.ByteChannel(c.cpu, place)
		if channel >= c.channels {
			continue
		}
		if s.Sums {
			at := c.at[depthwise.Out] + row*int(s.OutStride[0]) + col*int(s.OutStride[1]) + 4*channel
			*(*int32)(unsafe.Pointer(&mem[depthwise.Out][at])) = c.sum(mem, row, col, channel, place)
			continue
		}
		scaled := float32(c.sum(mem, row, col, channel, place)) * *argsSpill[float32](c, mem, depthwise.Scales, place)
		v := math.RoundToEven(float64(scaled)) + float64(*argsSpill[int32](c, mem, depthwise.ZeroPoint, 0))
		level := 0
		if v == v {
			level = int(min(max(v, least), least+255))
		}
		mem[depthwise.Out][c.at[depthwise.Out]+row*int(s.OutStride[0])+col*int(s.OutStride[1])+channel] = uint8(level)
	}
}

func (c *byteCall) sum(mem [][]byte, row, col, channel, place int) int32 {
	s := c.spec
	sum := *argsSpill[int32](c, mem, depthwise.Bias, place)
	for ky := range s.Window[0] {
		for kx := range s.Window[1] {
			at := (row*s.Stride[0]+ky*s.Dilation[0])*int(s.InStride[0]) +
				(col*s.Stride[1]+kx*s.Dilation[1])*int(s.InStride[1]) + channel
			x := mem[depthwise.In][c.at[depthwise.In]+at]
			if s.FlipSigns {
				x ^= 1 << 7
			}
			group, row := ky/s.RowsPerGroup(), ky%s.RowsPerGroup()
			w := c.at[depthwise.Weights] + ((kx*s.RowGroups()+group)*c.wide()+place)*4 + row*(4/s.RowsPerGroup())
			v := int32(x)
			if s.SignedIn {
				v = int32(int8(x))
			}
			if s.WordProducts {
				sum += v * int32(*(*int16)(unsafe.Pointer(&mem[depthwise.Weights][w])))
			} else {
				sum += v * int32(int8(mem[depthwise.Weights][w]))
			}
		}
	}
	return sum
}

// Fill sets the arguments of the call.
func (c *byteCall) Fill(a *jit.Args) {
	a.InnerCount, a.Rows = c.tiles, c.rows
	a.Step[depthwise.ChannelMask] = int(^uint64(0) >> (64 - c.channels))
}

// Compile compiles the spec.
func (c *byteCall) Compile(cpu machine.Features) (*jit.Func, error) {
	return depthwise.CompileBytes(c.spec, cpu)
}

// Format writes the call's parameters.
func (c *byteCall) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%+v\n%d tiles, %d rows, %d channels", *c.spec, c.tiles, c.rows, c.channels)
}

// TestBytes compares rows of random specs of bytes with a computation in Go.
func TestBytes(t *testing.T) {
	for _, cpu := range jittest.InstructionSets(t, machine.Portable) {
		for _, words := range []bool{false, true} {
			if words && (!cpu.Has(machine.AVX2) || cpu.Has(machine.Vector512)) || !words && !cpu.HasByteDot() {
				continue
			}
			draw := func(rng *rand.Rand, cpu machine.Features) jittest.Call {
				return drawBytes(rng, cpu, words)
			}
			jittest.CheckCallsFor(t, cpu, depthwise.ZeroPoint+1, 1, 500, draw)
		}
	}
}

// TestBytesForms compares the instructions of rows of bytes with Go's assembler.
func TestBytesForms(t *testing.T) {
	testsize.Long(t)
	jittest.CheckListings(t, 100, 40, func(seed uint64, cpu machine.Features) (string, error) {
		words := seed%2 == 1 && !cpu.Has(machine.Vector512)
		c, err := depthwise.CompileBytes(drawBytes(rand.New(rand.NewPCG(seed, 4)), cpu, words).spec, cpu)
		if err != nil {
			return "", err
		}
		return c.Listing(), nil
	})
}

// TestBytesRefused checks the errors of invalid specs of bytes.
func TestBytesRefused(t *testing.T) {
	for cpu, s := range map[machine.Features]*depthwise.ByteSpec{machine.Portable: {},
		machine.AVX512: {WordProducts: true}, machine.AVX2: {SignedIn: true},
		machine.NEON: {}, machine.NEON | machine.DotBytes128: {}} {
		_, err := depthwise.CompileBytes(s, cpu)
		if err == nil || !strings.Contains(err.Error(), "there is no code") {
			t.Error(err)
		}
	}
	if _, err := depthwise.CompileBytes(&depthwise.ByteSpec{Tile: 3}, machine.AVX2); err == nil {
		t.Error("three results were accepted")
	}
	for what, s := range map[string]*depthwise.ByteSpec{
		"Tile is 7":     {Tile: 7},
		"Overlap is 2":  {Tile: 2, Overlap: 2},
		"Window [0 0]":  {Tile: 1},
		"Channels is 9": {Tile: 1, Channels: 9},
	} {
		if _, err := depthwise.CompileBytes(s, machine.AVX512); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, not %v", what, err)
		}
	}
	for what, change := range map[string]func(s *depthwise.ByteSpec){
		"(3, 1073741824 bytes apart)": func(s *depthwise.ByteSpec) { s.InStride[0] = 1 << 30 },
		"(4, 536870912 bytes apart)":  func(s *depthwise.ByteSpec) { s.InStride[1] = 1 << 29 },
		"(1, 4294967296 bytes apart)": func(s *depthwise.ByteSpec) { s.OutStride[0] = min(1<<32, math.MaxInt) },
		"(2, 536870912 bytes apart)":  func(s *depthwise.ByteSpec) { s.OutStride[1] = 1 << 29 },
		"(1, -8 bytes apart)":         func(s *depthwise.ByteSpec) { s.OutStride[0] = -8 },
		"(1099511627776, 8 bytes apart)": func(s *depthwise.ByteSpec) {
			s.Stride[0], s.InStride[0] = min(1<<40, math.MaxInt),
				8
		},
		"(1073676291, 8 bytes apart)": func(s *depthwise.ByteSpec) {
			s.Stride[1], s.InStride[1] = min(1<<62, math.MaxInt),
				8
		},
		"(1073676289, 0 bytes apart)": func(s *depthwise.ByteSpec) { s.Window[1] = min(1<<36, math.MaxInt) },
	} {
		s := &depthwise.ByteSpec{Tile: 2, Window: [2]int{3, 3}, Stride: [2]int{1, 1}, Dilation: [2]int{1, 1}}
		change(s)
		if _, err := depthwise.CompileBytes(s, machine.AVX512); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, not %v", what, err)
		}
	}
}
