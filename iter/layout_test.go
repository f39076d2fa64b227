package iter_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/iter"
	"github.com/graphrun/graphrun/tensor"
)

func f32(shape, strides []int) tensor.Meta {
	return tensor.Meta{DType: tensor.Float32, Shape: shape, Strides: strides}
}

func channelsLast(t testing.TB, shape ...int) tensor.Meta {
	m, err := tensor.NewFormat(tensor.Float32, shape, tensor.ChannelsLast)
	require.NoError(t, err)
	return m
}

func add(a, b tensor.Meta) iter.Config {
	return iter.Binary(iter.UndefinedOutput(), iter.OperandOfMeta(a), iter.OperandOfMeta(b))
}

func build(t testing.TB, c iter.Config) *iter.Iterator {
	it, err := c.Build()
	require.NoError(t, err)
	return it
}

// The left value comes first, and ambiguous values give way: the table of results, on
// [2,4,3,5] with an ambiguous operand of either kind.
func TestLeftValueFirst(t *testing.T) {
	ct, cl := tensor.New(tensor.Float32, 2, 4, 3, 5), channelsLast(t, 2, 4, 3, 5)
	for _, amb := range [][]int{{2, 4, 1, 1}, {2, 1, 3, 5}} {
		for name, a := range map[string]tensor.Meta{"row-major": tensor.New(tensor.Float32, amb...),
			"channels-last": channelsLast(t, amb...)} {
			for _, c := range []struct {
				left, right, want tensor.Meta
				rule              string
			}{
				{a, ct, ct, "ambiguous+ct -> ct"}, {a, cl, cl, "ambiguous+cl -> cl"},
				{ct, a, ct, "ct+ambiguous -> ct"}, {cl, a, cl, "cl+ambiguous -> cl"},
				{ct, cl, ct, "ct+cl -> ct"}, {cl, ct, cl, "cl+ct -> cl"},
			} {
				t.Run(fmt.Sprint(amb, name, " ", c.rule), func(t *testing.T) {
					assert.Equal(t, c.want.Strides, build(t, add(c.left, c.right)).Output().Strides)
				})
			}
		}
	}
}

// Two ambiguous operands of one shape: the permutation rule gives the first one's
// layout; the fast set-up, which PyTorch has, makes both cases contiguous.
func TestTwoAmbiguous(t *testing.T) {
	ct, cl := tensor.New(tensor.Float32, 2, 1, 4, 4), channelsLast(t, 2, 1, 4, 4)
	slow := func(a, b tensor.Meta) []int { return build(t, add(a, b).FastSetup(false)).Output().Strides }
	fast := func(a, b tensor.Meta) []int { return build(t, add(a, b)).Output().Strides }
	assert.Equal(t, []int{16, 16, 4, 1}, ct.Strides)
	assert.Equal(t, []int{16, 1, 4, 1}, cl.Strides)
	assert.Equal(t, ct.Strides, slow(ct, cl))
	assert.Equal(t, cl.Strides, slow(cl, ct))
	assert.Equal(t, ct.Strides, fast(ct, cl))
	assert.Equal(t, ct.Strides, fast(cl, ct))
	assert.Equal(t, []int{16, 1, 4, 1}, fast(cl, tensor.New(tensor.Float32, 1, 4, 4)))
}

func TestWorkedCases(t *testing.T) {
	for _, c := range []struct {
		name         string
		a, b         tensor.Meta
		shape        []int
		perm, stride []int
	}{
		{"channels-last + contiguous", channelsLast(t, 2, 3, 4, 5), tensor.New(tensor.Float32, 3, 4, 5),
			[]int{2, 3, 4, 5}, []int{1, 3, 2, 0}, []int{60, 1, 15, 3}},
		{"ambiguous channels-last + [3,1,1]", channelsLast(t, 2, 3, 1, 1), tensor.New(tensor.Float32, 3, 1, 1),
			[]int{2, 3, 1, 1}, []int{1, 3, 2, 0}, []int{3, 1, 3, 3}},
		{"not contiguous", channelsLast(t, 2, 3, 1, 1), f32([]int{3, 1, 3}, []int{1, 3, 3}),
			[]int{2, 3, 1, 3}, []int{1, 2, 3, 0}, []int{9, 1, 3, 3}},
	} {
		t.Run(c.name, func(t *testing.T) {
			it := build(t, add(c.a, c.b))
			assert.Equal(t, c.shape, it.Shape())
			assert.Equal(t, c.perm, it.Perm())
			assert.Equal(t, c.stride, it.Output().Strides)
		})
	}
}

func TestCoalescedCopy(t *testing.T) {
	it := build(t, iter.Copy(iter.OperandOfMeta(channelsLast(t, 1, 64, 5, 4)),
		iter.OperandOfMeta(tensor.New(tensor.Float32, 1, 64, 5, 4))))
	assert.Equal(t, []int{64, 20}, it.WalkShape())
	assert.Equal(t, []int{4, 256}, it.WalkStrides(0))
	assert.Equal(t, []int{80, 4}, it.WalkStrides(1))
}

func TestSteps(t *testing.T) {
	// Padding keeps the three dimensions apart.
	m := f32([]int{10, 2000, 64}, []int{70 * 2001, 70, 1})
	it := build(t, iter.Copy(iter.OperandOfMeta(m), iter.OperandOfMeta(m)))
	require.Equal(t, []int{64, 2000, 10}, it.WalkShape())
	steps := it.Steps(iter.Range{Begin: 1066670, End: 1280000})
	require.Len(t, steps, 3)
	assert.Equal(t, []int{46, 666, 8}, steps[0].Counter)
	got := [][2]int{}
	for _, s := range steps {
		got = append(got, [2]int{s.N0, s.N1})
	}
	assert.Equal(t, [][2]int{{18, 1}, {64, 1333}, {64, 2000}}, got)
}

// The layout of a converted operand takes part as that of PyTorch's temporary.
func TestCastOperandLayout(t *testing.T) {
	a := tensor.Meta{DType: tensor.Int32, Shape: []int{2, 3, 4}, Strides: []int{0, 0, 1}}
	b := f32([]int{2, 3, 4}, []int{1, 2, 6})
	assert.Equal(t, []int{12, 4, 1}, build(t, add(a, b)).Output().Strides)
	assert.Equal(t, []int{1, 2, 6}, build(t, add(a.WithDType(tensor.Float32), b)).Output().Strides)
}

// x+x takes the fast set-up, x*2 does not: a 0-dim operand is another shape.
func TestNumberTakesSlowPath(t *testing.T) {
	x := channelsLast(t, 4, 8, 1, 1)
	assert.Equal(t, []int{8, 1, 1, 1}, build(t, add(x, x)).Output().Strides)
	two := iter.Binary(iter.UndefinedOutput(), iter.OperandOfMeta(x), iter.NumberOperand(tensor.IntScalar(2)))
	assert.Equal(t, []int{8, 1, 8, 8}, build(t, two).Output().Strides)
}

func TestRefusals(t *testing.T) {
	a, b := tensor.New(tensor.Float32, 2, 3), tensor.New(tensor.Float32, 2, 4)
	_, err := add(a, b).Build()
	assert.EqualError(t, err, "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension 1")

	_, err = iter.Unary(iter.OperandOfMeta(tensor.New(tensor.Int32, 2, 3)), iter.OperandOfMeta(a)).Build()
	assert.EqualError(t, err, "Found dtype Int but expected Float (output 0, int32[2,3]@(3,1))")

	_, err = iter.Copy(iter.OperandOfMeta(tensor.New(tensor.Float32, 1, 3)), iter.OperandOfMeta(a)).Build()
	assert.EqualError(t, err, "output with shape [1, 3] doesn't match the broadcast shape [2, 3] (output 0, "+
		"float32[1,3]@(3,1))")

	_, err = iter.Binary(iter.OperandOfMeta(tensor.New(tensor.Int32, 2, 3)), iter.OperandOfMeta(a),
		iter.OperandOfMeta(a)).Build()
	assert.EqualError(t, err, "result type Float can't be cast to the desired output type Int (output 0, "+
		"int32[2,3]@(3,1))")

	_, err = add(a, a).Input(iter.OperandOfMeta(b)).Build()
	assert.EqualError(t, err, "The size of tensor a (3) must match the size of tensor b (4) at non-singleton dimension "+
		"1 (b is input 2, float32[2,4]@(4,1); a is the shape [2, 3] of the operands before it)")

	_, err = iter.Unary(iter.OperandOfMeta(f32([]int{2, 3}, []int{0, 1})), iter.OperandOfMeta(a)).Build()
	assert.ErrorContains(t, err, "more than one element of the written-to tensor refers to a single memory location")

	x := tensor.Zeros(tensor.Float32, 8)
	m, _ := x.Narrow(0, 0, 4)
	n, _ := x.Narrow(0, 2, 4)
	out, in := tensor.Must(x.View(m)), tensor.Must(x.View(n))
	_, err = iter.Unary(iter.OperandOfTensor(out), iter.OperandOfTensor(in)).Build()
	assert.ErrorContains(t, err, "some elements of the input tensor and the written-to tensor refer to a single "+
		"memory location")
	_, err = iter.Unary(iter.OperandOfTensor(out), iter.OperandOfTensor(out)).Build()
	assert.NoError(t, err)
}

func TestResizedOutputWarns(t *testing.T) {
	it := build(t, iter.Binary(iter.OperandOfMeta(tensor.New(tensor.Float32, 4)),
		iter.OperandOfMeta(tensor.New(tensor.Float32, 2, 3)),
		iter.OperandOfMeta(tensor.New(tensor.Float32, 3))))
	assert.True(t, it.Resized(0))
	assert.Equal(t, []int{2, 3}, it.Meta(0).Shape)
	require.Len(t, it.Warnings(), 1)
	assert.Contains(t, it.Warnings()[0], "An output with one or more elements was resized since it had shape [4]")
}
