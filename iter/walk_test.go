package iter_test

import (
	"testing"
	"unsafe"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// anyMeta draws a layout for a shape: permuted, with gaps, with stride 0.
func anyMeta(t *rapid.T, d tensor.DType, shape []int) tensor.Meta {
	strides := make([]int, len(shape))
	step := 1
	for _, dim := range rapid.Permutation(indices(len(shape))).Draw(t, "order") {
		step *= rapid.SampledFrom([]int{1, 1, 1, 2}).Draw(t, "gap")
		strides[dim] = step
		step *= max(shape[dim], 1)
	}
	return tensor.Meta{DType: d, Shape: shape, Strides: strides, Offset: rapid.IntRange(0, 3).Draw(t, "offset")}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// broadcastable replaces sizes by 1 and drops leading dimensions.
func broadcastable(t *rapid.T, shape []int) []int {
	out := append([]int{}, shape...)
	for i := range out {
		if rapid.IntRange(0, 3).Draw(t, "one") == 0 {
			out[i] = 1
		}
	}
	return out[rapid.IntRange(0, len(out)).Draw(t, "drop"):]
}

func filled(m tensor.Meta) *tensor.Tensor {
	t := tensor.Empty(m)
	b := t.Storage().Bytes()
	one := tensor.Meta{DType: m.DType, Shape: []int{len(b) / m.DType.Size()}, Strides: []int{1}}
	flat := tensor.Must(t.View(one))
	for i := range flat.Numel() {
		flat.SetFlat(i, tensor.IntScalar(int64(i%100)+1))
	}
	return t
}

// naive computes a+b index by index.
func naive(a, b *tensor.Tensor, shape []int) []float64 {
	ea, _ := a.Expanded(shape)
	eb, _ := b.Expanded(shape)
	var out []float64
	var at []int
	ea.Walk(func(i int) { at = append(at, i) })
	k := 0
	load := func(t *tensor.Tensor, i int) float64 {
		var f float64
		tensor.Converter(tensor.Float64, t.DType)(unsafe.Pointer(&f), unsafe.Add(t.Pointer(), i*t.DType.Size()), 0, 0, 1)
		return f
	}
	eb.Walk(func(j int) {
		out = append(out, load(ea, at[k])+load(eb, j))
		k++
	})
	return out
}

// Walking touches the elements that a nested loop touches, in the same pairs, for any
// layouts and dtypes, cut anywhere.
func TestWalkPairs(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		shape := rapid.SliceOfN(rapid.SampledFrom([]int{1, 2, 3, 5, 17}), 0, 4).Draw(t, "shape")
		dts := []tensor.DType{tensor.Float32, tensor.Float64, tensor.Int32, tensor.Uint8}
		a := filled(anyMeta(t, rapid.SampledFrom(dts).Draw(t, "a"), broadcastable(t, shape)))
		b := filled(anyMeta(t, rapid.SampledFrom(dts).Draw(t, "b"), broadcastable(t, shape)))
		it, err := iter.BinaryFloat(iter.UndefinedOutputOf(tensor.Float64), iter.OperandOfTensor(a),
			iter.OperandOfTensor(b)).Build()
		if err != nil {
			t.Fatal(err)
		}
		blocks, loops := tensor.Empty(it.Output()), tensor.Empty(it.Output())
		body, loop := addBody(it.CommonDType())
		run := func(out *tensor.Tensor, r iter.Range, blocks bool) {
			ptrs, err := it.Bind(out, a, b)
			require.NoError(t, err)
			var c iter.Cursor
			if blocks {
				err = prepared(t, it, body).RunRange(&c, ptrs, r)
			} else {
				err = it.ForRange(&c, ptrs, r, loop)
			}
			require.NoError(t, err)
		}
		cut := rapid.IntRange(0, it.Numel()).Draw(t, "cut")
		for _, r := range []iter.Range{{Begin: cut, End: it.Numel()}, {Begin: 0, End: cut}} {
			run(blocks, r, true)
			run(loops, r, false)
		}
		want := naive(a, b, it.Shape())
		for name, out := range map[string]*tensor.Tensor{"blocks": blocks, "loops": loops} {
			got, _ := tensor.ToSlice[float64](out)
			assert.Equal(t, want, append([]float64(nil), got...), name)
		}
	})
}

func prepared(t require.TestingT, it *iter.Iterator, k iter.Kernels) iter.Prepared {
	p, err := it.Prepare(k)
	require.NoError(t, err)
	return p
}

// addBody adds in the common dtype and writes float64: the output is not converted.
func addBody(d tensor.DType) (iter.Kernel, iter.Loop) {
	if d == tensor.Float32 {
		return iter.Slice2(addAs[float32]), addLoop[float32]
	}
	return iter.Slice2(addAs[float64]), addLoop[float64]
}

func addAs[T float32 | float64](dst []float64, a, b []T) {
	for i := range dst {
		dst[i] = float64(a[i]) + float64(b[i])
	}
}

func addLoop[T float32 | float64](p []unsafe.Pointer, st []int, rowLen, rowCount int) error {
	for j := range rowCount {
		for i := range rowLen {
			a := *(*T)(unsafe.Add(p[1], i*st[1]+j*st[4]))
			b := *(*T)(unsafe.Add(p[2], i*st[2]+j*st[5]))
			*(*float64)(unsafe.Add(p[0], i*st[0]+j*st[3])) = float64(a) + float64(b)
		}
	}
	return nil
}

// Every cut of a range into pieces visits every element once.
func FuzzSplitVisitsOnce(f *testing.F) {
	f.Add(uint8(3), uint8(4), uint8(5), uint16(7), uint16(30), uint8(9))
	f.Add(uint8(64), uint8(1), uint8(2), uint16(0), uint16(128), uint8(1))
	f.Fuzz(func(t *testing.T, s0, s1, s2 uint8, begin, end uint16, grain uint8) {
		shape := []int{int(s2%20) + 1, int(s1%20) + 1, int(s0%20) + 1}
		m := tensor.Meta{DType: tensor.Uint8, Shape: shape, Strides: []int{2000, 50, 2}}
		it, err := iter.Nullary(iter.OperandOfMeta(m)).Build()
		require.NoError(t, err)
		n := it.Numel()
		r := iter.Range{Begin: int(begin) % (n + 1), End: int(end) % (n + 1)}
		seen := tensor.Empty(m)
		ptrs, err := it.Bind(seen)
		require.NoError(t, err)
		var c iter.Cursor
		g := int(grain) + 1
		for at := r.Begin; at < r.End; at += g {
			require.NoError(t, it.ForRange(&c, ptrs, iter.Range{Begin: at, End: min(at+g, r.End)}, countBoxes))
		}
		total := 0
		index := 0
		order := it.Perm()
		require.Equal(t, []int{2, 1, 0}, order)
		seen.Walk(func(i int) {
			v := int(*(*uint8)(unsafe.Add(seen.Pointer(), i)))
			want := 0
			if index >= r.Begin && index < r.End {
				want = 1
			}
			require.Equal(t, want, v, "element %d", index)
			total += v
			index++
		})
		require.Equal(t, max(r.End-r.Begin, 0), total)
	})
}

func countBoxes(p []unsafe.Pointer, st []int, rowLen, rowCount int) error {
	for j := range rowCount {
		for i := range rowLen {
			*(*uint8)(unsafe.Add(p[0], i*st[0]+j*st[1]))++
		}
	}
	return nil
}
