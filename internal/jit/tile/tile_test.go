//go:build linux || darwin

package tile_test

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/jittest"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/jit/tile"
	"github.com/graphrun/graphrun/internal/machine"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/tensor"
)

// number is the dtype of a tile: int32 stands for a group of four bytes, uint32 for a pair of words, and both for sums
// of their products.
type number interface {
	float32 | float64 | int32 | uint32
}

// integers reports whether T stands for bytes or for words.
func integers[T number]() (bytes, words bool) {
	switch any(T(0)).(type) {
	case int32:
		return true, false
	case uint32:
		return false, true
	}
	return false, false
}

// draw returns an element.
func draw[T number](rng *rand.Rand) T {
	if bytes, words := integers[T](); bytes || words {
		v := rng.Uint32()
		return *(*T)(unsafe.Pointer(&v))
	}
	return T(rng.NormFloat64())
}

// term adds a product to a sum. signed says that the bytes of x are signed.
func term[T number](x, y, sum T, signed bool) T {
	switch x := any(x).(type) {
	case int32:
		a, b, s := uint32(x), uint32(any(y).(int32)), any(sum).(int32)
		for i := range 4 {
			v := int32(uint8(a >> (8 * i)))
			if signed {
				v = int32(int8(v))
			}
			s += v * int32(int8(b>>(8*i)))
		}
		return any(s).(T)
	case uint32:
		y, s := any(y).(uint32), any(sum).(uint32)
		for i := range 2 {
			s += uint32(int32(int16(x>>(16*i))) * int32(int16(y>>(16*i))))
		}
		return any(s).(T)
	}
	return T(math.FMA(float64(x), float64(y), float64(sum)))
}

// call is a spec with the arguments of a call.
type call[T number] struct {
	spec  *tile.Spec
	lanes int // lanes of a whole vector
	tiles int
	terms int // terms of a Dynamic run
	step  map[tile.Slot]int
	mem   [][]byte
	at    []int // offset of each operand in its memory
}

// value returns a distance or a number, from the call if it is Dynamic.
func (c *call[T]) value(v int, slot tile.Slot) int {
	if v == tile.Dynamic {
		return c.step[slot]
	}
	return int(v)
}

// groups returns the number of groups of four bytes of an element of the operands.
func (c *call[T]) groups() int {
	if c.spec.Int8Matrix {
		return 2
	}
	return 1
}

func (c *call[T]) last() int {
	if c.spec.Lanes == 0 {
		return c.lanes
	}
	return c.value(c.spec.Lanes, tile.LastLanes)
}

func (c *call[T]) in(row int) int {
	if c.spec.In == nil {
		return row * c.step[tile.InRow]
	}
	return int(c.spec.In[row])
}

func (c *call[T]) out(row int) int {
	if c.spec.Out == nil {
		return row * c.step[tile.OutRow]
	}
	return int(c.spec.Out[row])
}

// eachTerm visits the terms of a row, with their offsets in both operands, and calls end after each block. in and vec
// are the offsets of the tile.
func (c *call[T]) eachTerm(level, in, vec, row int, visit func(in, vec int), end func()) {
	s := c.spec
	if level < len(s.Loops) {
		l := s.Loops[level]
		for i := range c.value(l.Trips, tile.LoopTrips+level) {
			c.eachTerm(level+1, in, vec, row, visit, end)
			if l.Block > 0 && (i+1)%l.Block == 0 {
				end()
			}
			in, vec = in+int(l.InStep), vec+int(l.VecStep)
		}
		return
	}
	for _, r := range s.Runs {
		if r.Rows != 0 && r.Rows>>row&1 == 0 {
			if r.Block > 0 {
				end()
			}
			continue
		}
		n := r.Terms
		if n == tile.Dynamic {
			n = c.terms
		}
		for k := range n {
			visit(in+int(r.In)+c.in(row)+k*c.value(r.InStep, tile.InTerm),
				vec+int(r.Vec)+k*c.value(r.VecStep, tile.VecTerm))
			if r.Block > 0 && ((k+1)%r.Block == 0 || k == n-1) {
				end()
			}
		}
	}
}

// blocks reports whether terms are divided into blocks.
func (c *call[T]) blocks() bool {
	return slices.ContainsFunc(c.spec.Loops, func(l tile.Loop) bool { return l.Block > 0 }) ||
		slices.ContainsFunc(c.spec.Runs, func(r tile.Run) bool { return r.Block > 0 })
}

// tileOffsets returns the offsets of tile t in the broadcast operand, in the vector operand and in the result.
func (c *call[T]) tileOffsets(t int) (in, vec, out int) {
	s := &c.spec.Tiles
	return t * c.value(s.InStep, tile.InTile), t * c.value(s.VecStep, tile.VecTile), t * c.value(s.OutStep, tile.OutTile)
}

// extents returns the range of bytes of each operand that the call may access.
func (c *call[T]) extents() (from, to []int) {
	from, to = make([]int, operands), make([]int, operands)
	size := int(unsafe.Sizeof(T(0)))
	touch := func(k, at, bytes int) {
		if from[k] == to[k] {
			from[k], to[k] = at, at+bytes
		}
		from[k], to[k] = min(from[k], at), max(to[k], at+bytes)
	}
	wide := (c.spec.Vectors-1)*c.lanes + c.last()
	for t := range c.tiles {
		in, vec, out := c.tileOffsets(t)
		for row := range c.spec.Rows {
			c.eachTerm(0, in, vec, row, func(in, vec int) {
				touch(tile.In, in, size*c.groups())
				if c.spec.Masked {
					touch(tile.Vec, vec, wide*size)
				} else {
					touch(tile.Vec, vec, c.spec.Vectors*c.lanes*c.vecSize()*c.groups())
				}
			}, func() {})
			touch(tile.Out, out+c.out(row), wide*c.outSize())
		}
		c.eachPacked(func(_, packed int) { touch(tile.Packed, packed, c.spec.Vectors*c.lanes*size) })
		if c.spec.Quantized != tile.NotQuantized {
			continue
		}
		for _, k := range []int{tile.FirstEpilogueOperand, tile.FirstEpilogueOperand + 1} {
			for row := range c.spec.Rows {
				touch(k, out+c.out(row), wide*size)
			}
		}
	}
	touch(tile.Bias, 0, max(wide, c.spec.Rows)*size)
	if c.spec.InitialSum == tile.FromLanes {
		from[tile.Bias], to[tile.Bias] = 0, wide*size
		if c.spec.MatrixUnit {
			to[tile.Bias] = c.spec.Vectors * c.lanes * size
		}
	}
	if c.spec.Quantized != tile.NotQuantized {
		touch(tile.Scales, 0, wide*size)
		touch(tile.ZeroPoint, 0, size)
	}
	touch(tile.FirstEpilogueOperand+2, 0, wide*size)
	touch(tile.FirstEpilogueOperand+3, 0, c.spec.Rows*size)
	return from, to
}

// Place fills memory with the operands.
func (c *call[T]) Place(rng *rand.Rand, mem [][]byte, atStart bool) []int {
	c.mem, c.at = mem, nil
	from, to := c.extents()
	for k := range from {
		if to[k]-from[k] > len(mem[k]) {
			return nil
		}
		at := len(mem[k]) - to[k]
		if atStart {
			at = -from[k]
		}
		c.at = append(c.at, at)
		for i := at + from[k]; i+int(unsafe.Sizeof(T(0))) <= at+to[k]; i += int(unsafe.Sizeof(T(0))) {
			*c.elem(mem, k, i-at) = draw[T](rng)
		}
	}
	if c.spec.Half != target.NotHalf {
		for i := from[tile.Vec]; i < to[tile.Vec]; i += 2 {
			x := float32(rng.NormFloat64())
			half := uint16(math.Float32bits(x) >> 16)
			if c.spec.Half == target.Float16 {
				half = uint16(tensor.HalfOf(x))
			}
			*(*uint16)(unsafe.Pointer(c.elem(mem, tile.Vec, i))) = half
		}
	}
	if c.spec.Quantized != tile.NotQuantized {
		c.fillScales(rng, mem, (c.spec.Vectors-1)*c.lanes+c.last())
	}
	return c.at
}

// outSize returns the bytes of an element of the result.
func (c *call[T]) outSize() int {
	if c.spec.Quantized != tile.NotQuantized {
		return 1
	}
	return int(unsafe.Sizeof(T(0)))
}

func (c *call[T]) elem(mem [][]byte, k, at int) *T { return (*T)(unsafe.Pointer(&mem[k][c.at[k]+at])) }

// vecSize returns the bytes of an element of the vector operand.
func (c *call[T]) vecSize() int {
	if c.spec.Half != target.NotHalf {
		return 2
	}
	return int(unsafe.Sizeof(T(0)))
}

// vecElem returns element i of a term of the vector operand, as the code converts it.
func (c *call[T]) vecElem(mem [][]byte, vec, i int) T {
	element := c.elem(mem, tile.Vec, vec+i*c.vecSize())
	if c.spec.Half == target.NotHalf {
		return *element
	}
	half := *(*uint16)(unsafe.Pointer(element))
	if c.spec.Half == target.Float16 {
		return T(tensor.Half(half).Float32())
	}
	return T(math.Float32frombits(uint32(half) << 16))
}

// Reference computes the tiles in Go.
func (c *call[T]) Reference(mem [][]byte) {
	s, size := c.spec, int(unsafe.Sizeof(T(0)))
	wide := (s.Vectors-1)*c.lanes + c.last()
	c.eachPacked(func(vec, packed int) {
		for lane := range s.Vectors * c.lanes {
			var x T
			if lane < wide || !s.Masked {
				x = c.vecElem(mem, vec, lane)
			}
			*c.elem(mem, tile.Packed, packed+lane*size) = x
		}
	})
	for t := range c.tiles {
		in, vec, out := c.tileOffsets(t)
		for row := range s.Rows {
			for lane := range wide {
				at := out + c.out(row) + lane*c.outSize()
				var sum T
				switch s.InitialSum {
				case tile.FromLanes:
					sum = *c.elem(mem, tile.Bias, lane*size)
				case tile.FromRows:
					sum = *c.elem(mem, tile.Bias, row*size)
				case tile.FromResult:
					sum = *c.elem(mem, tile.Out, at)
				}
				var earlier T // the sum of the blocks before
				if c.blocks() {
					sum, earlier = 0, sum
				}
				c.eachTerm(0, in, vec, row, func(in, vec int) {
					for k := range c.groups() {
						x, y := *c.elem(mem, tile.In, in+k*size), c.vecElem(mem, vec, lane*c.groups()+k)
						sum = term(x, y, sum, s.SignedIn)
					}
				}, func() { sum, earlier = 0, earlier+sum })
				sum += earlier
				for _, op := range s.Epilogue {
					sum = jittest.Epilogue(op, sum, c.operand(mem, op, at, row, lane))
				}
				if s.Quantized != tile.NotQuantized {
					*(*uint8)(unsafe.Pointer(c.elem(mem, tile.Out, at))) = c.quantize(mem, int32(sum), lane)
					continue
				}
				*c.elem(mem, tile.Out, at) = sum
			}
		}
	}
}

// operand returns the epilogue operand for an element.
func (c *call[T]) operand(mem [][]byte, t tile.EpilogueStep, at, row, lane int) T {
	size, k := int(unsafe.Sizeof(T(0))), tile.FirstEpilogueOperand+t.Operand
	switch t.Op {
	case tile.AddTile, tile.MulTile:
		return *c.elem(mem, k, at)
	case tile.AddResult:
		return *c.elem(mem, tile.Out, at)
	case tile.AddLanes, tile.MulLanes:
		return *c.elem(mem, k, lane*size)
	case tile.AddRows, tile.MulRows:
		return *c.elem(mem, k, row*size)
	}
	return 0
}

// Fill sets the arguments except for the addresses of the operands.
func (c *call[T]) Fill(a *jit.Args) {
	a.InnerCount, a.Rows = c.terms, c.tiles
	a.Ptr[tile.Prefetched] = unsafe.Pointer(&c.mem[0][0])
	if c.spec.MatrixUnit {
		a.Ptr[tile.Scratch], a.Row[tile.Scratch] = unsafe.Pointer(new([tile.UnitScratchBytes]byte)), 0
	}
	for i := range c.spec.Prefetch {
		a.Ptr[tile.PrefetchOperands+i], a.Step[tile.PrefetchStep+i] = a.Ptr[tile.Prefetched], 999*i
	}
	for k, v := range c.step {
		a.Step[k] = v
	}
}

// Compile compiles the spec.
func (c *call[T]) Compile(cpu machine.Features) (*jit.Func, error) { return tile.Compile(c.spec, cpu) }

// Format prints the call.
func (c *call[T]) Format(f fmt.State, _ rune) {
	fmt.Fprintf(f, "%+v\n%d tiles, %d terms, dynamic %v", *c.spec, c.tiles, c.terms, c.step)
}

// TestRandom compares tiles of random specs with Go.
func TestRandom(t *testing.T) {
	jittest.CheckCalls(t, operands, 4, 1200, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
		return random[float32](rng, cpu)
	})
	jittest.CheckCalls(t, operands, 4, 1200, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
		return randomHalf(rng, cpu)
	})
	jittest.CheckCalls(t, operands, 8, 1200, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
		return random[float64](rng, cpu)
	})
	if !machine.HostFeatures().Has(machine.NEON) {
		jittest.CheckCalls(t, operands, 4, 1200, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
			return random[uint32](rng, cpu)
		})
	}
	for _, cpu := range jittest.InstructionSets(t, machine.Portable) {
		if !cpu.HasByteDot() {
			continue
		}
		jittest.CheckCallsFor(t, cpu, operands, 4, 1200, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
			return random[int32](rng, cpu)
		})
		if cpu.Has(machine.MatrixBytes) {
			jittest.CheckCallsFor(t, cpu, operands, 4, 1200, func(rng *rand.Rand, cpu machine.Features) jittest.Call {
				return randomMatrix(rng, cpu)
			})
		}
	}
}

// TestForms compares the instructions of random specs with Go's assembler.
func TestForms(t *testing.T) {
	testsize.Long(t)
	jittest.CheckListings(t, 800, 1000, func(seed uint64, cpu machine.Features) (string, error) {
		rng := rand.New(rand.NewPCG(seed, 3))
		spec := random[float32](rng, cpu).spec
		if seed%2 == 0 {
			spec = random[float64](rng, cpu).spec
		}
		switch {
		case seed%3 == 0:
			spec = random[int32](rng, cpu).spec
		case seed%3 == 1:
			spec = random[uint32](rng, cpu).spec
		case seed%5 == 0:
			spec = randomHalf(rng, cpu).spec
		}
		c, err := tile.Compile(spec, cpu)
		if err != nil {
			return "", err
		}
		return c.Listing(), nil
	})
}
