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

// Walks names the patterns of strides that [Iterate] can build.
var Walks = []string{"contiguous", "transposed", "broadcast", "strided", "matrices"}

// WalkShape returns a small shape for a walk. The shape for "matrices" is not a multiple of the tiles of kernels, so
// that partial tiles are tested.
func WalkShape(walk string) []int {
	if walk == "matrices" {
		return []int{2, 18, 20}
	}
	return []int{3, 8, 20}
}

// Iterate returns an iteration over a shape, for the outputs and inputs of an expression. walk, an element of Walks,
// selects the strides of outputs and inputs. Outputs are dense, and row-major except for "strided". The inputs are
//   - contiguous: row-major;
//   - transposed: column-major if their index is even;
//   - matrices: with the last two dimensions transposed if their index is even;
//   - broadcast: constant along one dimension, or along all dimensions if their index is 1 modulo 3;
//   - strided: row-major with gaps; outputs are column-major.
func Iterate(code *expr.Code, walk string, shape ...int) (*iter.Iterator, error) {
	config := iter.New().CheckAllSameDType(false).ResizeOutputs(false)
	dense := func(dtype tensor.DType) tensor.Meta { return tensor.New(dtype, shape...) }
	for _, output := range code.Out {
		meta := dense(output.DType)
		if walk == "strided" {
			meta.Strides = columnMajorStrides(shape)
		}
		config = config.Output(iter.OperandOfMeta(meta))
	}
	for index, dtype := range code.In {
		meta := dense(dtype)
		switch {
		case walk == "transposed" && index%2 == 0:
			meta.Strides = columnMajorStrides(shape)
		case walk == "matrices" && index%2 == 0:
			last := len(shape) - 1
			meta.Strides = slices.Clone(meta.Strides)
			meta.Strides[last-1], meta.Strides[last] = 1, shape[last-1]
		case walk == "broadcast" && index%3 == 1:
			meta.Strides = make([]int, len(shape))
		case walk == "broadcast":
			meta.Strides = slices.Clone(meta.Strides)
			meta.Strides[(index+len(shape)-1)%len(shape)] = 0
		case walk == "strided":
			meta.Strides = gappedStrides(shape, 2+index%2)
		}
		config = config.Input(iter.OperandOfMeta(meta))
	}
	return config.Build()
}

// columnMajorStrides returns the strides of contiguous column-major elements: the first dimension is the fastest.
func columnMajorStrides(shape []int) []int {
	strides, step := make([]int, len(shape)), 1
	for dim := range shape {
		strides[dim] = step
		step *= shape[dim]
	}
	return strides
}

// gappedStrides returns strides of row-major elements with the given stride of the last dimension.
func gappedStrides(shape []int, step int) []int {
	strides := make([]int, len(shape))
	for dim := len(shape) - 1; dim >= 0; dim-- {
		strides[dim] = step
		step *= shape[dim]
	}
	return strides
}

// Operands returns memory for the operands of an iteration, outputs first. Inputs have random elements, and outputs
// have zeros.
func Operands(iteration *iter.Iterator, rng *rand.Rand) [][]byte {
	var list [][]byte
	for i := range iteration.Operands() {
		meta := iteration.Meta(i)
		mem := make([]byte, meta.Extent()*meta.DType.Size())
		realDType := meta.DType.ToReal() // a complex element consists of two real elements; outputs get no random elements
		for start := 0; i >= iteration.NumOutputs() && start < len(mem); start += realDType.Size() {
			var element [8]byte
			binary.LittleEndian.PutUint64(element[:], randomBits(rng, realDType))
			copy(mem[start:start+realDType.Size()], element[:])
		}
		list = append(list, mem)
	}
	return list
}

// specialFloats has zeros, infinities, NaN, subnormal numbers, and numbers near the bounds of dtypes.
var specialFloats = []float64{0, math.Copysign(0, -1), 1, -1, 0.5, 2, 3.5, -7.25, math.Inf(1), math.Inf(-1),
	math.NaN(), 1e-40, -1e-310, 6e4, 3e9, -3e9, 1 << 31, -1 << 31, 1 << 32, 5e9, 1e19, -1e19, 1 << 63, -1 << 63,
	1 << 62, 0x1p64, math.MaxFloat32, -math.MaxFloat64, math.Pi, 1 << 24, 255.5, 256, -0.75, 65504, 65520, 5.9e-8}

// randomBits returns the bits of a random element of a real dtype: a special value, a small number, or random bits.
func randomBits(rng *rand.Rand, dtype tensor.DType) uint64 {
	if dtype == tensor.Bool {
		return rng.Uint64() & 1
	}
	mask := ^uint64(0) >> (64 - 8*dtype.Size())
	switch choice := rng.IntN(4); {
	case choice == 0:
		return rng.Uint64() & mask
	case dtype.IsFloat():
		number := math.Round(rng.NormFloat64()*100) / 8
		if choice == 1 {
			number = specialFloats[rng.IntN(len(specialFloats))]
		}
		var bits uint64
		// The last arguments are two strides and the number of elements.
		tensor.Converter(dtype, tensor.Float64)(unsafe.Pointer(&bits), unsafe.Pointer(&number), 0, 0, 1)
		return bits
	case choice == 1:
		// 2^62 + 2^38 is the midpoint of two float32. For the next greater integer, a conversion to float32 through float64
		// rounds twice and gives a wrong result.
		aboveMidpoint := mask & (1<<62 | 1<<38 | 1)
		return []uint64{0, 1, mask, mask >> 1, mask>>1 + 1, 2, aboveMidpoint}[rng.IntN(7)]
	}
	return uint64(rng.IntN(20)-8) & mask
}

// Run runs a program. operands has the memory of the program's outputs, followed by the memory of its inputs. If the
// program reports a fault in its data, such as an index out of range, Run returns the fault as an error.
type Run func(program *lower.Program, operands [][]byte) error

// Interpret is a [Run] that interprets the kernels on the host.
func Interpret(program *lower.Program, operands [][]byte) error {
	scratch, fault := make([]byte, program.Scratch), make([]byte, 4)
	for _, launch := range program.Launches {
		var args []ir.Operand
		for _, arg := range launch.Args {
			mem := scratch
			switch {
			case arg.Buffer >= 0:
				mem = operands[arg.Buffer]
			case arg.Buffer == lower.FaultWord:
				mem = fault
			}
			args = append(args, ir.Operand{Mem: mem, Offset: arg.Offset})
		}
		if err := launch.Kernel.Run(launch.Groups, args); err != nil {
			return err
		}
	}
	return FaultOf(program, fault)
}

// FaultOf returns the fault of a program as an error, or nil if there is none. word has the bytes that the program's
// kernels set when they find a fault.
func FaultOf(program *lower.Program, word []byte) error {
	if binary.LittleEndian.Uint32(word) != 0 {
		return errors.New(program.Fault)
	}
	return nil
}

// Difference compares the results of a kernel with Code.Eval, element by element.
type Difference struct {
	Results   int    // number of result elements
	Differing int    // number of result elements that differ
	First     string // describes the first element that differs
}

// Compare computes an expression over an iteration with random operands, and compares the results with Code.Eval. For
// Code.Eval, elementary functions are expanded to primitive operations, as in kernels. All NaNs are equal.
func Compare(source *expr.Code, iteration *iter.Iterator, target lower.Target, rng *rand.Rand,
	run Run) (Difference, error) {
	expanded, err := expand.Functions(source, expand.Target{})
	if err != nil {
		return Difference{}, err
	}
	align := slices.Repeat([]int{16}, len(iteration.Operands())) // addresses are multiples of 16
	program, err := lower.Pointwise(source, iteration, align, target)
	if err != nil {
		return Difference{}, err
	}
	mem := Operands(iteration, rng)
	if err := run(program, mem); err != nil {
		return Difference{}, err
	}
	var diff Difference
	index := make([]int, len(iteration.Shape()))
	for range iteration.Numel() {
		compareElement(expanded, iteration, mem, index, &diff)
		advance(index, iteration.Shape())
	}
	return diff, nil
}

// advance advances a multidimensional index. The last dimension changes fastest.
func advance(index, shape []int) {
	for dim := len(shape) - 1; dim >= 0; dim-- {
		if index[dim]++; index[dim] < shape[dim] {
			return
		}
		index[dim] = 0
	}
}

// compareElement compares the results at one index of the iteration's shape, and counts them in diff. mem has the
// memory of the operands, outputs first.
func compareElement(code *expr.Code, iteration *iter.Iterator, mem [][]byte, index []int, diff *Difference) {
	var in []expr.Number
	for i := len(code.Out); i < len(mem); i++ {
		in = append(in, elementAt(mem[i], iteration.Meta(i), index))
	}
	for output, want := range code.Eval(in...) {
		realDType := code.Out[output].DType.ToReal()
		got := elementAt(mem[output], iteration.Meta(output), index)
		diff.Results++
		if !sameBits(realDType, got.Re, want.Re) || !sameBits(realDType, got.Im, want.Im) {
			if diff.Differing++; diff.Differing == 1 {
				diff.First = fmt.Sprintf("element %v of output %d: %x instead of %x for %x", index, output,
					got, want, in)
			}
		}
	}
}

// elementAt returns the element of an operand at an index.
func elementAt(mem []byte, meta tensor.Meta, index []int) expr.Number {
	offset := 0
	for dim, stride := range meta.Strides {
		offset += index[dim] * stride * meta.DType.Size()
	}
	size := meta.DType.ToReal().Size()
	element := expr.Number{Re: bitsAt(mem, offset, size)}
	if meta.DType.IsComplex() {
		element.Im = bitsAt(mem, offset+size, size)
	}
	return element
}

// bitsAt returns the little-endian number of size bytes at an offset.
func bitsAt(mem []byte, offset, size int) uint64 {
	var word [8]byte
	copy(word[:], mem[offset:offset+size])
	return binary.LittleEndian.Uint64(word[:])
}

// sameBits reports whether two elements of a real dtype have the same bits, or are both NaN.
func sameBits(dtype tensor.DType, a, b uint64) bool {
	return a == b || isNaN(dtype, a) && isNaN(dtype, b)
}

// isNaN reports whether an element with the given bits is a NaN.
func isNaN(dtype tensor.DType, bits uint64) bool {
	if !dtype.IsFloat() {
		return false
	}
	var value float64
	tensor.Converter(tensor.Float64, dtype)(unsafe.Pointer(&value), unsafe.Pointer(&bits), 0, 0, 1)
	return value != value
}
