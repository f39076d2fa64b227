package conform

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"unsafe"

	"github.com/graphrun/graphrun/expr"
	"github.com/graphrun/graphrun/expr/expand"
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/gpu/lower"
	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// Walks are the names of the iterations of [Iterate].
var Walks = []string{"contiguous", "transposed", "broadcast", "strided"}

// Iterate returns an iteration over operands with the dtypes of an expression. walk is an element of Walks. Outputs are
// dense. In the iteration "transposed", every second operand is transposed. In "broadcast", operands are constant along
// one dimension or along all dimensions. In "strided", the elements of operands are not contiguous, and the dimensions
// of outputs are reversed.
func Iterate(code *expr.Code, walk string, shape ...int) (*iter.Iterator, error) {
	c := iter.New().CheckAllSameDType(false).ResizeOutputs(false)
	dense := func(d tensor.DType) tensor.Meta { return tensor.New(d, shape...) }
	for _, o := range code.Out {
		m := dense(o.DType)
		if walk == "strided" {
			m.Strides = strides(shape, 1, true)
		}
		c = c.Output(iter.OfMeta(m))
	}
	for k, d := range code.In {
		m := dense(d)
		switch {
		case walk == "transposed" && k%2 == 0:
			m.Strides = strides(shape, 1, true)
		case walk == "broadcast" && k%3 == 1:
			m.Strides = make([]int, len(shape))
		case walk == "broadcast":
			m.Strides = slices.Clone(m.Strides)
			m.Strides[(k+len(shape)-1)%len(shape)] = 0
		case walk == "strided":
			m.Strides = strides(shape, 2+k%2, false)
		}
		c = c.Input(iter.OfMeta(m))
	}
	return c.Build()
}

// strides returns strides of which the smallest is step. The fastest dimension is the last one, or the first one if
// reversed is true.
func strides(shape []int, step int, reversed bool) []int {
	s := make([]int, len(shape))
	for k := range shape {
		d := len(shape) - 1 - k
		if reversed {
			d = k
		}
		s[d] = step
		step *= shape[d]
	}
	return s
}

// Operands returns random memory for the operands of an iteration, outputs first.
func Operands(it *iter.Iterator, rng *rand.Rand) [][]byte {
	var list [][]byte
	for i := range it.Operands() {
		m := it.Meta(i)
		mem := make([]byte, m.Extent()*m.DType.Size())
		part := m.DType.ToReal()
		for at := 0; i >= it.NumOutputs() && at < len(mem); at += part.Size() {
			var b [8]byte
			binary.LittleEndian.PutUint64(b[:], randomBits(rng, part))
			copy(mem[at:at+part.Size()], b[:])
		}
		list = append(list, mem)
	}
	return list
}

// randomBits returns the bits of a random element of a real dtype: a special value, a small number, or random bits.
func randomBits(rng *rand.Rand, d tensor.DType) uint64 {
	special := []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3.5, -7.25, math.Inf(1), math.Inf(-1), math.NaN(), 1e-40,
		-1e-310, 6e4, 3e9, -3e9, 1 << 31, -1 << 31, 1 << 32, 5e9, 1e19, -1e19, 1 << 63, -1 << 63, 1 << 62, 0x1p64,
		math.MaxFloat32, -math.MaxFloat64, math.Pi, 1 << 24, 255.5, 256, -0.75, 65504, 65520, 5.9e-8}
	if d == tensor.Bool {
		return rng.Uint64() & 1
	}
	mask := ^uint64(0) >> (64 - 8*d.Size())
	switch k := rng.IntN(4); {
	case k == 0:
		return rng.Uint64() & mask
	case d.IsFloat():
		x := math.Round(rng.NormFloat64()*100) / 8
		if k == 1 {
			x = special[rng.IntN(len(special))]
		}
		var b uint64
		tensor.Converter(d, tensor.Float64)(unsafe.Pointer(&b), unsafe.Pointer(&x), 0, 0, 1)
		return b
	case k == 1:
		return []uint64{0, 1, mask, mask >> 1, mask>>1 + 1, 2, mask & (1<<62 | 1<<38 | 1)}[rng.IntN(7)]
	}
	return uint64(rng.IntN(20)-8) & mask
}

// Run runs a program. operands has the memory of the results and then of the operands. If the program reports a fault
// of its data, such as an index out of range, Run returns it as an error.
type Run func(p *lower.Program, operands [][]byte) error

// Interpret is a [Run] that interprets the kernels on the host.
func Interpret(p *lower.Program, operands [][]byte) error {
	scratch, fault := make([]byte, p.Scratch), make([]byte, 4)
	for _, l := range p.Launches {
		var list []ir.Operand
		for _, a := range l.Args {
			mem := scratch
			switch {
			case a.Buffer >= 0:
				mem = operands[a.Buffer]
			case a.Buffer == lower.FaultWord:
				mem = fault
			}
			list = append(list, ir.Operand{Mem: mem, Offset: a.Offset})
		}
		if err := l.Kernel.Run(l.Groups, list); err != nil {
			return err
		}
	}
	return FaultOf(p, fault)
}

// FaultOf returns the fault of a program as an error, or nil for none. word has the bytes that the program's kernels
// set when they find a fault.
func FaultOf(p *lower.Program, word []byte) error {
	if binary.LittleEndian.Uint32(word) != 0 {
		return errors.New(p.Fault)
	}
	return nil
}

// Difference describes results that differ from those of Code.Eval.
type Difference struct {
	Results int    // number of all results
	Differ  int    // number of results that differ
	First   string // describes the first result that differs
}

// Compare computes an expression over an iteration with random operands, and compares the results with Code.Eval. For
// Code.Eval, elementary functions are expanded to primitive operations, as in kernels. All NaNs are equal.
func Compare(c *expr.Code, it *iter.Iterator, t lower.Target, rng *rand.Rand, run Run) (Difference, error) {
	code, err := expand.Functions(c, expand.Target{})
	if err != nil {
		return Difference{}, err
	}
	program, err := lower.Pointwise(c, it, slices.Repeat([]int{16}, len(it.Operands())), t)
	if err != nil {
		return Difference{}, err
	}
	mem := Operands(it, rng)
	if err := run(program, mem); err != nil {
		return Difference{}, err
	}
	var diff Difference
	index := make([]int, len(it.Shape()))
	for range it.Numel() {
		compareElement(code, it, mem, index, &diff)
		advance(index, it.Shape())
	}
	return diff, nil
}

// next advances a multidimensional index. The last dimension changes fastest.
func advance(index, shape []int) {
	for d := len(shape) - 1; d >= 0; d-- {
		if index[d]++; index[d] < shape[d] {
			return
		}
		index[d] = 0
	}
}

// compareElement compares the results at one index, and adds them to diff.
func compareElement(code *expr.Code, it *iter.Iterator, mem [][]byte, index []int, diff *Difference) {
	outs := len(code.Out)
	number := func(i int) expr.Number {
		m := it.Meta(i)
		at := 0
		for d, s := range m.Strides {
			at += index[d] * s * m.DType.Size()
		}
		part := m.DType.ToReal().Size()
		x := expr.Number{Re: bitsAt(mem[i], at, part)}
		if m.DType.IsComplex() {
			x.Im = bitsAt(mem[i], at+part, part)
		}
		return x
	}
	var in []expr.Number
	for i := outs; i < len(mem); i++ {
		in = append(in, number(i))
	}
	for o, want := range code.Eval(in...) {
		d := code.Out[o].DType.ToReal()
		diff.Results++
		if got := number(o); !sameBits(d, got.Re, want.Re) || !sameBits(d, got.Im, want.Im) {
			if diff.Differ++; diff.Differ == 1 {
				diff.First = fmt.Sprintf("element %v of output %d: %x instead of %x for %x", index, o, got, want, in)
			}
		}
	}
}

// bitsAt returns the little-endian number of size bytes at offset at.
func bitsAt(mem []byte, at, size int) uint64 {
	var b [8]byte
	copy(b[:], mem[at:at+size])
	return binary.LittleEndian.Uint64(b[:])
}

// sameBits reports whether two elements of a real dtype have the same bits, or are both NaN.
func sameBits(d tensor.DType, a, b uint64) bool { return a == b || isNaN(d, a) && isNaN(d, b) }

func isNaN(d tensor.DType, x uint64) bool {
	if !d.IsFloat() {
		return false
	}
	var f float64
	tensor.Converter(tensor.Float64, d)(unsafe.Pointer(&f), unsafe.Pointer(&x), 0, 0, 1)
	return f != f
}
