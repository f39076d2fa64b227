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

// number is an element type.
type number interface{ float32 | float64 }

// call is a spec with the image that it is applied to.
type call[T number] struct {
	spec     *depthwise.Spec
	tiles    int
	vectors  int
	again    int    // channels
	channels int    // of the call
	stride   int    // channels of a pixel
	size     [2]int // of the image
	begin    [2]int // where the first window begins in it
	at       []int  // of operands in memory
}

const operands = depthwise.FirstEpilogueOperand + 3

// random draws a call: windows across the border of an image, or several tiles inside it.
func random[T number](rng *rand.Rand, cpu machine.Features) *call[T] {
	size := int(unsafe.Sizeof(T(0)))
	c := &call[T]{tiles: 1 + rng.IntN(3), vectors: 1 + rng.IntN(3)}
	s := &depthwise.Spec{Size: size, VectorBytes: []int{16, 32}[rng.IntN(2)], Bias: rng.IntN(2) == 0,
		PrefetchResult: rng.IntN(2) == 0}
	c.spec = s
	registers, longest := depthwise.Registers(cpu)
	switch longest {
	case 16:
		s.VectorBytes = 16
	case 64:
		s.VectorBytes = []int{16, 32, 64, 64, 64}[rng.IntN(5)]
	}
	s.Group = 1 << max(0, rng.IntN(7)-2)
	for s.Group > s.VectorBytes/size {
		s.Group /= 2
	}
	s.Tile[1] = 1 + rng.IntN(8)
	s.Tile[0] = 1 + rng.IntN((registers-2-min(s.Group-1, 1))/s.Tile[1])
	var span [2]int
	for d := range 2 {
		s.Window[d], s.Stride[d], s.Dilation[d] = 1+rng.IntN(6), 1+rng.IntN(3), 1+rng.IntN(5)/3
		if rng.IntN(8) == 0 {
			s.Window[d] = 7 + rng.IntN(8)
		}
		span[d] = (s.Tile[d]-1)*s.Stride[d] + (s.Window[d]-1)*s.Dilation[d] + 1
		c.size[d] = 1 + rng.IntN(span[d]+3)
		c.begin[d] = rng.IntN(span[d]+c.size[d]) - span[d]
	}
	if c.tiles > 1 {
		c.begin[1] = rng.IntN(3)
		c.size[1] = c.begin[1] + span[1] + (c.tiles-1)*s.Tile[1]*s.Stride[1] + rng.IntN(3)
	}
	c.drawChannels(rng)
	for d := range 2 {
		s.First[d] = min(max(0, -c.begin[d]), span[d])
		s.End[d] = max(s.First[d], min(span[d], c.size[d]-c.begin[d]))
	}
	s.RowsFromCall = s.Tile[0] == 1 && rng.IntN(2) == 0 || s.First[0] == 0 && s.End[0] == span[0]
	c.drawTail(rng)
	return c
}

func (c *call[T]) drawChannels(rng *rand.Rand) {
	s := c.spec
	lanes := s.VectorBytes / s.Size
	if c.vectors > 1 {
		c.again = rng.IntN(lanes/s.Group) * s.Group
	}
	c.channels = c.vectors*lanes - c.again
	c.stride = c.channels + rng.IntN(3)
	pixel := c.stride * s.Size
	width := c.tiles*s.Tile[1] + rng.IntN(2)
	s.InStride, s.OutStride = [2]int{c.size[1] * pixel, pixel}, [2]int{width * pixel, pixel}
	s.InTileStep, s.OutTileStep = s.Tile[1]*s.Stride[1]*pixel, s.Tile[1]*pixel
}

func (c *call[T]) drawTail(rng *rand.Rand) {
	for range rng.IntN(4) {
		op := tile.EpilogueOp(rng.IntN(int(tile.Scale) + 1))
		t := tile.EpilogueStep{Op: op, Lower: rng.NormFloat64(), Upper: rng.NormFloat64()}
		switch t.Op {
		case tile.AddLanes, tile.MulLanes:
			t.Operand = 1 + rng.IntN(2)
		case tile.AddRows, tile.MulRows:
			continue
		case tile.AddResult:
			if c.again > 0 { // which would add results of its own
				continue
			}
		}
		c.spec.Epilogue = append(c.spec.Epilogue, t)
	}
}

// existingRows returns the first existing row of the window, and their number.
func (c *call[T]) existingRows() (first, rows int) {
	for k := range c.spec.Window[0] {
		if at := c.begin[0] + k*c.spec.Dilation[0]; at >= 0 && at < c.size[0] {
			if rows == 0 {
				first = k
			}
			rows++
		}
	}
	return first, rows
}

// Place fills memory with the operands.
func (c *call[T]) Place(rng *rand.Rand, mem [][]byte, atStart bool) []int {
	s := c.spec
	bytes := make([]int, operands)
	bytes[depthwise.In] = c.size[0] * int(s.InStride[0])
	bytes[depthwise.Weights] = c.vectors * s.Group * s.Window[0] * s.Window[1] * s.VectorBytes
	bytes[depthwise.Out] = (s.Tile[0]-1)*int(s.OutStride[0]) + ((c.tiles*s.Tile[1]-1)*c.stride+c.channels)*s.Size
	bytes[depthwise.Bias] = c.channels * s.Size
	bytes[depthwise.FirstEpilogueOperand] = bytes[depthwise.Out]
	bytes[depthwise.FirstEpilogueOperand+1] = bytes[depthwise.Bias]
	bytes[depthwise.FirstEpilogueOperand+2] = bytes[depthwise.Bias]
	c.at = make([]int, operands)
	for k, n := range bytes {
		if n > len(mem[k]) {
			return nil
		}
		if !atStart {
			c.at[k] = len(mem[k]) - n
		}
		for i := 0; i < n; i += s.Size {
			*c.elem(mem, k, i) = T(rng.NormFloat64())
		}
	}
	// Channels that are in both of two overlapping vectors have the same value in both.
	lanes, taps := s.VectorBytes/s.Size, s.Group*s.Window[0]*s.Window[1]
	for k := range taps {
		for i := range c.again {
			*c.weight(mem, c.vectors-1, k, i) = *c.weight(mem, c.vectors-2, k, lanes-c.again+i)
		}
	}
	return c.at
}

func (c *call[T]) elem(mem [][]byte, k, at int) *T { return (*T)(unsafe.Pointer(&mem[k][c.at[k]+at])) }

func (c *call[T]) weight(mem [][]byte, vector, tap, lane int) *T {
	s := c.spec
	return c.elem(mem, depthwise.Weights, (vector*s.Group*s.Window[0]*s.Window[1]+tap)*s.VectorBytes+lane*s.Size)
}

// Reference computes the tiles in Go.
func (c *call[T]) Reference(mem [][]byte) {
	s := c.spec
	lanes := s.VectorBytes / s.Size
	for row := range s.Tile[0] {
		for col := range c.tiles * s.Tile[1] {
			for ch := range c.channels {
				v, lane := ch/lanes, ch%lanes
				if v == c.vectors-1 {
					lane += c.again
				}
				if first := (c.vectors-1)*lanes - c.again; ch >= first {
					v, lane = c.vectors-1, ch-first
				}
				out := row*int(s.OutStride[0]) + (col*c.stride+ch)*s.Size
				sum := c.window(mem, row, col, ch, v, lane)
				for _, t := range s.Epilogue {
					sum = jittest.Epilogue(t, sum, c.operand(mem, t, out, ch))
				}
				*c.elem(mem, depthwise.Out, out) = sum
			}
		}
	}
}

// window computes one sum.
func (c *call[T]) window(mem [][]byte, row, col, ch, vector, lane int) (sum T) {
	s := c.spec
	if s.Bias {
		sum = *c.elem(mem, depthwise.Bias, ch*s.Size)
	}
	taps := s.Window[0] * s.Window[1]
	for k := range s.Group * taps {
		ky, kx := k%taps/s.Window[1], k%s.Window[1]
		y := c.begin[0] + row*s.Stride[0] + ky*s.Dilation[0]
		x := c.begin[1] + col*s.Stride[1] + kx*s.Dilation[1]
		if y < 0 || y >= c.size[0] || x < 0 || x >= c.size[1] {
			continue
		}
		e := *c.elem(mem, depthwise.In, ((y*c.size[1]+x)*c.stride+ch-ch%s.Group+k/taps)*s.Size)
		w := *c.weight(mem, vector, k, lane)
		sum = T(math.FMA(float64(e), float64(w), float64(sum)))
	}
	return sum
}

// operand returns the epilogue operand for an element.
func (c *call[T]) operand(mem [][]byte, t tile.EpilogueStep, at, ch int) T {
	k := depthwise.FirstEpilogueOperand + t.Operand
	switch t.Op {
	case tile.AddTile, tile.MulTile:
		return *c.elem(mem, k, at)
	case tile.AddResult:
		return *c.elem(mem, depthwise.Out, at)
	case tile.AddLanes, tile.MulLanes:
		return *c.elem(mem, k, ch*c.spec.Size)
	}
	return 0
}

// Fill sets the arguments of the call.
func (c *call[T]) Fill(a *jit.Args) {
	s := c.spec
	a.InnerCount, a.Rows = c.vectors, c.tiles
	row, col := c.begin[0]+s.First[0], c.begin[1]+s.First[1]
	if s.RowsFromCall {
		first, rows := c.existingRows()
		row = c.begin[0] + first*s.Dilation[0]
		a.Row[depthwise.Weights] += first * s.Window[1] * s.VectorBytes
		a.Step[depthwise.WindowRows] = rows
	}
	a.Row[depthwise.In] += row*int(s.InStride[0]) + col*int(s.InStride[1])
	a.Step[depthwise.Overlap] = c.again * s.Size
}

// Compile compiles the spec.
func (c *call[T]) Compile(cpu machine.Features) (*jit.Func, error) {
	return depthwise.Compile(c.spec, cpu)
}

// Format writes the call's parameters.
func (c *call[T]) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%+v\n%d tiles and %d vectors from %v on", *c.spec, c.tiles, c.vectors, c.begin)
}

// TestRandom compares tiles of random specs with a computation in Go.
func TestRandom(t *testing.T) {
	jittest.CheckCalls(t, operands, 4, 1000, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
		return random[float32](rng, cpu)
	})
	jittest.CheckCalls(t, operands, 8, 1000, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
		return random[float64](rng, cpu)
	})
}

// TestForms checks the listings of random specs.
func TestForms(t *testing.T) {
	testsize.Long(t)
	jittest.CheckListings(t, 300, 300, func(seed uint64, cpu machine.Features) (string, error) {
		rng := rand.New(rand.NewPCG(seed, 3))
		spec := random[float32](rng, cpu).spec
		if seed%2 == 0 {
			spec = random[float64](rng, cpu).spec
		}
		c, err := depthwise.Compile(spec, cpu)
		if err != nil {
			return "", err
		}
		return c.Listing(), nil
	})
}

// TestRefused checks the errors of invalid specs.
func TestRefused(t *testing.T) {
	good := func() *depthwise.Spec {
		return &depthwise.Spec{Size: 4, VectorBytes: 32, Group: 1, Tile: [2]int{2, 4}, Window: [2]int{3, 3},
			Stride:   [2]int{1, 1},
			Dilation: [2]int{1, 1}}
	}
	if _, err := depthwise.Compile(good(), machine.AVX2); err != nil {
		t.Fatal(err)
	}
	for what, change := range map[string]func(s *depthwise.Spec){
		"Size is 2":        func(s *depthwise.Spec) { s.Size = 2 },
		"VectorBytes is 8": func(s *depthwise.Spec) { s.VectorBytes = 8 },
		"VectorBytes is 64: want at most 32 on avx2": func(s *depthwise.Spec) { s.VectorBytes = 64 },
		"Group is 3":        func(s *depthwise.Spec) { s.Group = 3 },
		"Stride [0 1]":      func(s *depthwise.Spec) { s.Stride[0] = 0 },
		"into 16 registers": func(s *depthwise.Spec) { s.Tile[0] = 4 },
		"Epilogue[0] is not": func(s *depthwise.Spec) {
			s.Epilogue = []tile.EpilogueStep{{Op: tile.AddRows}}
		},
		"(2, 536870912 bytes apart)":           func(s *depthwise.Spec) { s.OutStride[0] = 1 << 29 },
		"(4, 4294967296 bytes apart)":          func(s *depthwise.Spec) { s.OutStride[1] = min(1<<32, math.MaxInt) },
		"(4, 1073741824 bytes apart)":          func(s *depthwise.Spec) { s.InStride[0], s.End = 1<<30, [2]int{9, 9} },
		"(1, 4611686018427387904 bytes apart)": func(s *depthwise.Spec) { s.InTileStep = min(1<<62, math.MaxInt) },
		"(1, -4 bytes apart)":                  func(s *depthwise.Spec) { s.OutTileStep = -4 },
		"(1073676288, 8 bytes apart)": func(s *depthwise.Spec) {
			s.Dilation[0], s.InStride[0] = 1<<30-1<<16, 8
		},
		"(3, 34357641216 bytes apart)": func(s *depthwise.Spec) { s.Window[1] = min(1<<50, math.MaxInt) },
		"there is no code for por":     nil,
	} {
		s, cpu := good(), machine.AVX2
		if change != nil {
			change(s)
		} else {
			cpu = machine.Portable
		}
		if _, err := depthwise.Compile(s, cpu); err == nil || !strings.Contains(err.Error(), what) {
			t.Errorf("want %q, not %v", what, err)
		}
	}
}
