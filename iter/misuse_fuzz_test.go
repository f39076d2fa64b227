package iter_test

import (
	"bytes"
	"context"
	"testing"
	"unsafe"

	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// fuzzKernels are kernels of many types and arities, good and bad.
var fuzzKernels = []iter.Kernel{
	{},
	iter.Map0(func() float32 { return 1 }),
	iter.Map0(func() bool { return true }),
	iter.Map0Out2(func() (int8, int64) { return 1, 2 }),
	iter.Slice1(func(d []float32, a []float32) { copy(d, a) }),
	iter.Slice1(func(d []uint64, a []uint64) { copy(d, a) }).Bits(),
	iter.Slice1(func(d []uint8, a []uint8) { copy(d, a) }).Bits(),
	iter.Map1(func(a int64) bool { return a > 0 }),
	iter.Map1Out2(func(a float32) (float32, int64) { return a, 1 }),
	iter.Map2(func(a, b float64) float64 { return a + b }),
	iter.Map2(func(a, b float32) float32 { return a + b }).Exchange(0, 1),
	iter.Map2(func(a, b int64) int64 { return a + b }),
	iter.Map2(func(a, b complex128) complex128 { return a * b }),
	iter.Slice2(func(d, a, b []complex64) {}).Bits(),
	iter.WithCheck(iter.Map2(func(a, b uint8) uint8 { return a | b }), 1, func([]uint8) error { return nil }),
	iter.Map2Out2(func(a, b float32) (float32, float32) { return a, b }),
	iter.Map3(func(a, b, c float32) float32 { return a + b + c }),
	iter.Map1(func(a float32) float32 { return -a }).Ignoring(tensor.Float32).Ignoring(tensor.Float32),
	iter.Map3(func(a bool, b, c float64) float64 { return b }),
	iter.Map1[float32, float32](nil),
	iter.Map2(func(a, b float32) float32 { return a }).Exchange(7, -1),
}

// slab hands out tensors over memory between guards.
type slab struct {
	t    *testing.T
	all  [][]byte
	used []int
}

const guard = 256

func (s *slab) tensor(m tensor.Meta) *tensor.Tensor {
	n := m.Extent() * m.DType.Size()
	b := tensor.NewStorage(n + 2*guard).Bytes()
	for i := range guard {
		b[i], b[guard+n+i] = 0xa5, 0xa5
	}
	s.all, s.used = append(s.all, b), append(s.used, n)
	x, err := tensor.FromStorage(m, tensor.StorageOf(b[guard:guard+n:guard+n]))
	require.NoError(s.t, err)
	return x
}

func (s *slab) check() {
	whole := bytes.Repeat([]byte{0xa5}, guard)
	for i, b := range s.all {
		require.Equal(s.t, whole, b[:guard], "before operand %d", i)
		require.Equal(s.t, whole, b[guard+s.used[i]:], "behind operand %d", i)
	}
}

// Whatever is asked of an iteration, with kernels of any types, ranges and parts of any
// bounds, is an error or stays within the operands; nothing panics.
func FuzzMisuse(f *testing.F) {
	f.Add([]byte{1, 2, 11, 0, 1, 2, 1, 1, 0, 11, 0, 1, 2, 1, 11, 0, 1, 2, 1})
	f.Add([]byte{2, 1, 12, 0, 2, 0, 2, 1, 3, 12, 0, 2, 0, 2, 1, 3, 9, 200, 3, 100})
	f.Fuzz(func(t *testing.T, b []byte) {
		d, s := &draw{b}, &slab{t: t}
		c := iter.New().ResizeOutputs(!d.flag()).CheckAllSameDType(!d.flag()).PromoteInputsToCommonDType(d.flag()).
			CastCommonDTypeToOutputs(d.flag()).OpMath(d.flag()).IsReduction(d.n(8) == 7).CheckMemOverlap(!d.flag())
		for range d.n(3) {
			c = c.Output([]iter.Operand{iter.OperandOfTensor(s.tensor(d.meta())), iter.UndefinedOutput(),
				iter.UndefinedOutputOf(tensor.Float32)}[d.n(3)])
		}
		for range d.n(4) {
			c = c.Input(iter.OperandOfTensor(s.tensor(d.meta())))
		}
		it, err := c.Build()
		if err != nil {
			require.NotEmpty(t, err.Error())
			return
		}
		ks := []iter.Kernels{iter.NewTable("two", fuzzKernels[9], fuzzKernels[11]), iter.NewTable("", fuzzKernels...),
			(*iter.Table)(nil), nil}
		for _, k := range fuzzKernels {
			ks = append(ks, k)
		}
		for _, k := range ks {
			_, err := it.Apply(k, iter.Workers(d.n(4)-1), iter.Grain(d.n(20)-1),
				iter.Allocate(func(_ int, m tensor.Meta) (*tensor.Tensor, error) {
					return s.tensor(m), nil
				}))
			require.True(t, err == nil || err.Error() != "")
			s.check()
		}
		misuseParts(t, it, d)
		s.check()
	})
}

// misuseParts asks for parts and ranges that mostly do not exist.
func misuseParts(t *testing.T, it *iter.Iterator, d *draw) {
	part, err := it.Narrow(d.n(5)-1, d.n(7)-1, d.n(7)-1)
	if err == nil {
		require.LessOrEqual(t, part.Numel(), it.Numel())
	}
	_, _ = it.SelectAll(d.n(5)-1, []int{d.n(5) - 1, d.n(5) - 1})
	less, err := it.RemoveOperand(d.n(6) - 1)
	if err == nil {
		require.Equal(t, it.Len()-1, less.Len())
		require.NotEmpty(t, less.Explain())
	}
	r := iter.Range{Begin: d.n(30) - 5, End: d.n(60) - 5}
	total := 0
	for _, step := range it.Steps(r) {
		total += step.N0 * step.N1
	}
	require.LessOrEqual(t, total, max(0, it.Numel()))
	for i := range it.Chunks(d.n(9) - 1) {
		require.GreaterOrEqual(t, i, 0)
	}
	nop := func([]unsafe.Pointer, []int, int, int) error { return nil }
	if ts, err := it.Tensors(); err == nil {
		if ptrs, err := it.Bind(ts...); err == nil {
			_ = it.ForRange(nil, ptrs, r, nop)
			_ = it.Parallel(context.Background(), ptrs, d.n(9)-1, d.n(3)-1, nop)
		}
	}
	_, _ = it.RunReduce(context.Background(), d.n(3), intSum)
}
