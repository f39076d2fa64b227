package iter_test

import (
	"encoding/json"
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

// addresses returns the byte offsets of all elements, by brute force.
func addresses(m tensor.Meta) (starts []int) {
	size := m.DType.Size()
	m.Walk(func(at int) { starts = append(starts, (m.Offset+at)*size) })
	return starts
}

func smallMeta(t *rapid.T, d tensor.DType) tensor.Meta {
	n := rapid.IntRange(0, 3).Draw(t, "rank")
	m := tensor.Meta{DType: d, Offset: rapid.IntRange(0, 6).Draw(t, "offset")}
	for range n {
		m.Shape = append(m.Shape, rapid.IntRange(0, 4).Draw(t, "size"))
		m.Strides = append(m.Strides, rapid.IntRange(0, 9).Draw(t, "stride"))
	}
	return m
}

func TestInternalOverlapIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := smallMeta(t, tensor.Float32)
		want := iter.OverlapNo
		seen := map[int]bool{}
		for _, a := range addresses(m) {
			if seen[a] {
				want = iter.OverlapPartial
			}
			seen[a] = true
		}
		assert.Equal(t, want, iter.InternalOverlap(m), "%v", m)
	})
}

func TestOverlapIsExact(t *testing.T) {
	dtypes := []tensor.DType{tensor.Uint8, tensor.Int32, tensor.Float32}
	rapid.Check(t, func(t *rapid.T) {
		a := smallMeta(t, rapid.SampledFrom(dtypes).Draw(t, "a"))
		b := smallMeta(t, rapid.SampledFrom(dtypes).Draw(t, "b"))
		if rapid.Bool().Draw(t, "same") {
			b.Shape, b.Strides, b.Offset = a.Shape, a.Strides, a.Offset
		}
		sa, sb := bytesOf(a), bytesOf(b)
		switch got := iter.OverlapOf(a, b); got {
		case iter.OverlapNo:
			assert.False(t, meet(sa, sb), "%v %v", a, b)
		case iter.OverlapPartial:
			assert.True(t, meet(sa, sb), "%v %v", a, b)
		case iter.OverlapFull:
			assert.Equal(t, a.DType.Size(), b.DType.Size())
			assert.Equal(t, addresses(a), addresses(b), "%v %v", a, b)
		default:
			t.Fatalf("gave up on %v and %v", a, b)
		}
	})
}

func bytesOf(m tensor.Meta) map[int]bool {
	set := map[int]bool{}
	for _, s := range addresses(m) {
		for k := range m.DType.Size() {
			set[s+k] = true
		}
	}
	return set
}

func meet(a, b map[int]bool) bool {
	for k := range a {
		if b[k] {
			return true
		}
	}
	return false
}

// overlapCase is a case of testdata/overlap.json, which testdata/overlap.py describes.
type overlapCase struct {
	op, verdict string
	out, in     tensor.Meta
}

func overlapCases(t *testing.T) (cases []overlapCase) {
	text, err := os.ReadFile("testdata/overlap.json")
	require.NoError(t, err)
	var rows [][4]json.RawMessage
	require.NoError(t, json.Unmarshal(text, &rows))
	meta := func(raw json.RawMessage) (m tensor.Meta) {
		var dtype string
		require.NoError(t, json.Unmarshal(raw, &[]any{&dtype, &m.Shape, &m.Strides, &m.Offset}))
		d, err := tensor.ParseDType(dtype)
		require.NoError(t, err)
		m.DType = d
		return m
	}
	for _, r := range rows {
		c := overlapCase{out: meta(r[1]), in: meta(r[2])}
		require.NoError(t, json.Unmarshal(r[0], &c.op))
		require.NoError(t, json.Unmarshal(r[3], &c.verdict))
		cases = append(cases, c)
	}
	return cases
}

// PyTorch's refusals are ours. Where PyTorch runs, only what it does not look into may be
// refused: operands that are not dense and truly share bytes, and elements of another size.
func TestOverlapAsPyTorch(t *testing.T) {
	counts := map[string]int{}
	stricter := 0
	for _, c := range overlapCases(t) {
		s := tensor.NewStorage(1 << 14)
		over := func(m tensor.Meta) *tensor.Tensor { return tensor.Must(tensor.FromStorage(m, s)) }
		out, in := iter.OperandOfTensor(over(c.out)), iter.OperandOfTensor(over(c.in))
		var err error
		switch c.op {
		case "copy":
			_, err = iter.Copy(out, in).Build()
		case "neg":
			_, err = iter.Unary(out, in).Build()
		case "add":
			_, err = iter.Binary(out, out, in).Build()
		}
		counts[c.verdict]++
		switch c.verdict {
		case "internal":
			assert.ErrorContains(t, err, "more than one element of the written-to tensor", "%v", c)
		case "partial":
			assert.ErrorContains(t, err, "some elements of the input tensor and the written-to tensor", "%v", c)
		default:
			if err == nil {
				continue
			}
			stricter++
			dense := c.out.IsNonOverlappingAndDense() && c.in.IsNonOverlappingAndDense()
			assert.True(t, !dense || c.in.DType.Size() != c.out.DType.Size(), "%v: %v", c, err)
			shared := meet(bytesOf(c.out), bytesOf(c.in)) || iter.InternalOverlap(c.out) == iter.OverlapPartial
			assert.True(t, shared, "%v: %v", c, err)
		}
	}
	assert.Greater(t, counts["partial"], 700)
	assert.Greater(t, counts["internal"], 100)
	assert.Greater(t, counts[""]-stricter, 1900)
}

// What in-place ops over a transposed square would have computed was wrong in silence.
func TestTransposedSquareIsRefused(t *testing.T) {
	y := tensor.Zeros(tensor.Float32, 64, 64)
	m, err := y.Transpose(0, 1)
	require.NoError(t, err)
	transposed := tensor.Must(y.View(m))
	_, err = iter.Binary(iter.OperandOfTensor(y), iter.OperandOfTensor(y), iter.OperandOfTensor(transposed)).Build()
	assert.ErrorContains(t, err, "some elements of the input tensor and the written-to tensor refer to a single "+
		"memory location")
	_, err = iter.Unary(iter.OperandOfTensor(y), iter.OperandOfTensor(transposed)).Build()
	assert.ErrorContains(t, err, "output 0, float32[64,64]@(64,1), and input 0, float32[64,64]@(1,64)")
	_, err = iter.Copy(iter.OperandOfTensor(y), iter.OperandOfTensor(transposed)).Build()
	assert.Error(t, err)
	_, err = iter.Copy(iter.OperandOfTensor(y), iter.OperandOfTensor(tensor.Must(y.View(y.Meta)))).Build()
	assert.NoError(t, err, "another view of the same elements")
}

// Two tensors over one Go slice have storages of their own; what they share is memory.
func TestOverlapOfStoragesOverOneSlice(t *testing.T) {
	data := make([]float32, 9)
	a, b := tensor.Must(tensor.FromSlice(data[:8], 8)), tensor.Must(tensor.FromSlice(data[1:], 8))
	_, err := iter.Unary(iter.OperandOfTensor(a), iter.OperandOfTensor(b)).Build()
	assert.ErrorContains(t, err, "some elements of the input tensor")
	same := tensor.Must(tensor.FromSlice(data[:8], 8))
	_, err = iter.Unary(iter.OperandOfTensor(a), iter.OperandOfTensor(same)).Build()
	assert.NoError(t, err)
	left, right := tensor.Must(tensor.FromSlice(data[:4], 4)), tensor.Must(tensor.FromSlice(data[4:8], 4))
	_, err = iter.Unary(iter.OperandOfTensor(left), iter.OperandOfTensor(right)).Build()
	assert.NoError(t, err)
}

// PyTorch lets two outputs share memory; which of them is written last would depend on how
// the walk is cut.
func TestOutputsMustNotOverlapInPart(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 9)
	part := func(at int) iter.Operand {
		return iter.OperandOfTensor(tensor.Must(x.View(tensor.Meta{DType: tensor.Float32, Shape: []int{8}, Strides: []int{1},
			Offset: at})))
	}
	_, err := iter.New().Output(part(0)).Output(part(1)).Input(iter.OperandOfMeta(tensor.New(tensor.Float32, 8))).Build()
	assert.ErrorContains(t, err, "output 0, float32[8]@(1), and output 1, float32[8]@(1)+1")
}

func TestExactOverlapIsRefused(t *testing.T) {
	x := tensor.Zeros(tensor.Float32, 16)
	view := func(offset int, shape, strides []int) *tensor.Tensor {
		return tensor.Must(x.View(tensor.Meta{DType: tensor.Float32, Shape: shape, Strides: strides, Offset: offset}))
	}
	even, odd, third := view(0, []int{5}, []int{2}), view(1, []int{5}, []int{2}), view(0, []int{5}, []int{3})
	_, err := iter.Unary(iter.OperandOfTensor(even), iter.OperandOfTensor(odd)).Build()
	assert.NoError(t, err, "interleaved elements do not meet")
	_, err = iter.Unary(iter.OperandOfTensor(even), iter.OperandOfTensor(third)).Build()
	assert.ErrorContains(t, err, "some elements of the input tensor and the written-to tensor refer to a single "+
		"memory location")
	_, err = iter.Unary(iter.OperandOfTensor(view(0, []int{3, 3}, []int{2, 1})),
		iter.OperandOfTensor(view(9, []int{3, 3}, []int{2, 1}))).Build()
	assert.ErrorContains(t, err, "more than one element of the written-to tensor")
	_, err = iter.Unary(iter.OperandOfTensor(even), iter.OperandOfTensor(view(0, []int{5}, []int{2}))).Build()
	assert.NoError(t, err, "full overlap is allowed")
}
