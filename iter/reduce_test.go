package iter_test

import (
	"context"
	"math"
	"math/big"
	"slices"
	"testing"
	"unsafe"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// intSum adds integers: exact, so that every order gives the same bits.
var intSum = iter.Resumes(iter.FoldOf(int64(0),
	func(a, x int64, _ int) int64 { return a + x },
	func(a, b int64) int64 { return a + b },
	func(a int64) int64 { return a }),
	func(a, from []int64) {
		for i := range a {
			a[i] += from[i]
		}
	})

// maxFold gives the greatest elements and their indices, and goes on from them.
func maxFold() *iter.Fold {
	f := iter.FoldOf(best{index: -1},
		func(a best, x float32, at int) best { return later(a, best{x, int64(at)}) },
		later,
		func(a best) float32 { return a.value }).InOrder()
	f = iter.WithResult(f, func(dst []int64, a []best) {
		for i := range a {
			dst[i] = a[i].index
		}
	})
	f = iter.Resumes(f, func(a []best, from []float32) {
		for i := range a {
			a[i].value = from[i]
		}
	})
	return iter.Resumes(f, func(a []best, from []int64) {
		for i := range a {
			a[i].index = from[i]
		}
	})
}

// runsOf calls f with every index of the kept dimensions (reduced ones at 0) and the
// elements behind it, in row-major order.
func runsOf(x *tensor.Tensor, mask []bool, f func(index []int, run []tensor.Scalar)) {
	kept, reduced := slices.Clone(x.Shape), slices.Clone(x.Shape)
	for d, m := range mask {
		if m {
			kept[d] = 1
		} else {
			reduced[d] = 1
		}
	}
	eachOf(kept, func(index []int) {
		var run []tensor.Scalar
		at := make([]int, len(index))
		eachOf(reduced, func(r []int) {
			for d := range at {
				at[d] = index[d] + r[d]
			}
			run = append(run, x.At(at...))
		})
		f(index, run)
	})
}

func eachOf(shape []int, f func(index []int)) {
	index := make([]int, len(shape))
	for n := tensor.Numel(shape); n > 0; n-- {
		f(index)
		for d := len(shape) - 1; d >= 0; d-- {
			if index[d]++; index[d] < shape[d] {
				break
			}
			index[d] = 0
		}
	}
}

// drawnOutput is an output of some layout for a reduction, of the result's shape and as
// the reduction takes it: of size 1, or expanded with stride 0.
func drawnOutput(t *rapid.T, d tensor.DType, shape []int, mask []bool, keepdim bool) (out, view *tensor.Tensor) {
	out = filled(anyMeta(t, d, iter.ReduceShape(shape, mask, keepdim)))
	m := iter.ReduceOutput(out.Meta, mask, keepdim)
	if rapid.Bool().Draw(t, "expanded") {
		m.Shape, m.Strides = slices.Clone(m.Shape), slices.Clone(m.Strides)
		for d := range mask {
			if mask[d] && shape[d] > 0 { // of size 0 there would be no result
				m.Shape[d], m.Strides[d] = shape[d], 0
			}
		}
	}
	return out, tensor.Must(out.View(m))
}

func drawnReduction(t *rapid.T, d tensor.DType) (x *tensor.Tensor, mask []bool) {
	shape := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 7, 20, 40, 0}), 0, 4).Draw(t, "shape")
	for tensor.Numel(shape) > 4000 {
		shape = shape[1:]
	}
	x = filled(anyMeta(t, d, shape))
	return x, rapid.SliceOfN(rapid.Bool(), len(shape), len(shape)).Draw(t, "mask")
}

// Any mix of kept and reduced dimensions, layouts and dtypes gives what a naive loop gives.
func TestReduceAgainstNaive(t *testing.T) {
	dts := []tensor.DType{tensor.Int8, tensor.Uint8, tensor.Int32, tensor.Int64, tensor.Bool}
	rapid.Check(t, func(t *rapid.T) {
		x, mask := drawnReduction(t, rapid.SampledFrom(dts).Draw(t, "in"))
		keepdim := rapid.Bool().Draw(t, "keepdim")
		out, view := drawnOutput(t, rapid.SampledFrom([]tensor.DType{tensor.Int64, tensor.Int32}).Draw(t, "out"), x.Shape,
			mask, keepdim)
		it, err := iter.Reduction(iter.OperandOfTensor(view), iter.OperandOfTensor(x)).Build()
		require.NoError(t, err)
		_, err = it.RunReduce(context.Background(), 2, intSum)
		require.NoError(t, err)
		kept := tensor.Must(out.View(iter.ReduceOutput(out.Meta, mask, keepdim)))
		runsOf(x, mask, func(index []int, run []tensor.Scalar) {
			want := int64(0)
			for _, v := range run {
				want += v.Int()
			}
			assert.Equal(t, want, kept.At(index...).Int())
		})
	})
}

// Two outputs of layouts of their own, whose positions are logical.
func TestReduceTwoOutputs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		x, mask := drawnReduction(t, rapid.SampledFrom([]tensor.DType{tensor.Float32, tensor.BFloat16}).Draw(t, "in"))
		values, v := drawnOutput(t, tensor.Float64, x.Shape, mask, true)
		places, p := drawnOutput(t, tensor.Int64, x.Shape, mask, true)
		it, err := iter.New().Output(iter.OperandOfTensor(v)).Output(iter.OperandOfTensor(p)).Input(iter.OperandOfTensor(x)).
			IsReduction(true).ResizeOutputs(false).CheckMemOverlap(false).CheckAllSameDType(false).Build()
		require.NoError(t, err)
		_, err = it.RunReduce(context.Background(), 2, maxFold())
		require.NoError(t, err)
		runsOf(x, mask, func(index []int, run []tensor.Scalar) {
			want := 0
			for i := range run {
				if run[i].Float() > run[want].Float() {
					want = i
				}
			}
			if len(run) == 0 {
				want = -1
			} else {
				assert.Equal(t, run[want].Float(), values.At(index...).Float())
			}
			assert.EqualValues(t, want, places.At(index...).Int())
		})
	})
}

// Results do not depend on the number of workers, to the bit; large enough for the cuts.
func TestReduceSameBits(t *testing.T) {
	for _, c := range []struct {
		m    tensor.Meta
		dims []int
	}{
		{tensor.New(tensor.Float32, 300_001), nil},
		{tensor.New(tensor.Float32, 3, 100_001), []int{1}},
		{tensor.New(tensor.Float32, 3000, 130), []int{0}},
		{tensor.New(tensor.BFloat16, 40, 60, 70).WithStrides([]int{1, 40, 2400}), []int{0, 2}},
		{tensor.New(tensor.Float32, 9, 9000, 2), []int{1}},
	} {
		x := scattered(c.m)
		mask, err := iter.ReduceMask(c.dims, x.Rank())
		require.NoError(t, err)
		var first []byte
		for _, workers := range []int{1, 2, 7} {
			out := tensor.Empty(tensor.New(tensor.Float32, iter.ReduceShape(x.Shape, mask, true)...))
			it, err := iter.Reduction(iter.OperandOfTensor(out), iter.OperandOfTensor(x)).Build()
			require.NoError(t, err)
			ptrs, err := it.Bind(out, x)
			require.NoError(t, err)
			require.NoError(t, it.Reduce(context.Background(), ptrs, workers, sumFold))
			if first == nil {
				first = out.Storage().Bytes()
			}
			assert.Equal(t, first, out.Storage().Bytes(), "%v over %v with %d workers", c.m, c.dims, workers)
		}
	}
}

// scattered fills a tensor with values of both signs and many magnitudes.
func scattered(m tensor.Meta) *tensor.Tensor {
	x := tensor.Empty(m)
	for i := range x.Numel() {
		x.SetFlat(i, tensor.FloatScalar(math.Sin(float64(i))*math.Exp2(float64(i*7919%28-14))))
	}
	return x
}

// Sums stay within the bound of the documentation of Fold, against exact sums.
func TestSumBound(t *testing.T) {
	testsize.Long(t)
	wide := iter.FoldOf(0.0, func(a, x float64, _ int) float64 { return a + x },
		func(a, b float64) float64 { return a + b }, func(a float64) float64 { return a })
	narrow := iter.FoldOf(float32(0), func(a, x float32, _ int) float32 { return a + x },
		func(a, b float32) float32 { return a + b }, func(a float32) float32 { return a })
	step := testsize.Of(2, 1)
	for i, c := range []struct {
		d     tensor.DType
		f     *iter.Fold
		u, by float64 // of the accumulators, of the result
	}{
		{tensor.Float16, sumFold, 0x1p-53, 0x1p-24}, {tensor.BFloat16, sumFold, 0x1p-53, 0x1p-24},
		{tensor.Float32, sumFold, 0x1p-53, 0x1p-24}, {tensor.Float64, wide, 0x1p-53, 0}, {tensor.Float32, narrow, 0x1p-24, 0},
	} {
		if testing.Short() && c.d != tensor.Float32 {
			continue // what sums are is looked at without the race detector
		}
		gaps := tensor.New(c.d, 3000, 33).WithStrides([]int{40, 1})
		for k, m := range []tensor.Meta{tensor.New(c.d, 100_000), tensor.New(c.d, 5, 20_000),
			tensor.New(c.d, 20_000, 5), gaps} {
			if (i+k)%step > 0 {
				continue
			}
			x := scattered(m)
			for d := -1; d < x.Rank(); d++ {
				mask := make([]bool, x.Rank())
				for e := range mask {
					mask[e] = d < 0 || e == d
				}
				dims := []int{d}
				if d < 0 {
					dims = nil
				}
				out, err := c.f.Over(x, true, dims...)
				require.NoError(t, err)
				runsOf(x, mask, func(index []int, run []tensor.Scalar) {
					exact, sizes := new(big.Float).SetPrec(300), 0.0
					for _, v := range run {
						exact.Add(exact, big.NewFloat(v.Float()))
						sizes += math.Abs(v.Float())
					}
					want, _ := exact.Float64()
					n := float64(len(run))
					bound := (n/32+1200)*c.u*sizes + c.by*math.Abs(want)*(1+0x1p-20)
					if e := math.Abs(out[0].At(index...).Float() - want); !(e <= bound) {
						t.Errorf("%v over %v: %v differs by %g, the bound is %g", m, dims, index, e, bound)
					}
				})
			}
		}
	}
}

func TestReduceOfNothing(t *testing.T) {
	for _, c := range []struct {
		shape, dims, want []int
		sum               float32
	}{
		{[]int{0, 3}, []int{0}, []int{3}, 0},
		{[]int{0, 3}, []int{1}, []int{0}, 0},
		{[]int{2, 0, 3}, []int{-1, 0}, []int{0}, 0},
		{[]int{}, []int{0}, []int{}, 7},
		{[]int{1, 1}, nil, []int{}, 7},
	} {
		x := tensor.Empty(tensor.New(tensor.Float32, c.shape...))
		if x.Numel() == 1 {
			x.SetFlat(0, tensor.FloatScalar(7))
		}
		out, err := sumFold.Over(x, false, c.dims...)
		require.NoError(t, err)
		assert.Equal(t, c.want, out[0].Shape)
		for i := range out[0].Numel() {
			assert.EqualValues(t, c.sum, *(*float32)(unsafe.Add(out[0].Pointer(), 4*i)))
		}
	}
}
