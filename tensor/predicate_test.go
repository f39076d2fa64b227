package tensor_test

import (
	"fmt"
	"math"
	"slices"
	"testing"

	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// unknown returns symbolic sizes or strides with the given names and hints.
func unknown(env *sym.Env, names []string, hints ...int) []sym.Int {
	out := make([]sym.Int, len(names))
	for i, name := range names {
		var err error
		if out[i], err = env.Symbol(name, 0, math.MaxInt, hints[i]); err != nil {
			panic(err)
		}
	}
	return out
}

// Strides of contiguous values: sizes 2, 3, 5; an unknown batch; an unknown inner size; dimensions of size 1
// and 0.
func ExampleRowMajor() {
	x := unknown(sym.NewEnv(), []string{"x"}, 3)[0]
	fmt.Println(tensor.Sizes(tensor.RowMajor(sym.Ints(2, 3, 5))))
	fmt.Println(tensor.Sizes(tensor.RowMajor([]sym.Int{x, sym.Of(3), sym.Of(5)})))
	fmt.Println(tensor.Sizes(tensor.RowMajor([]sym.Int{sym.Of(2), x, sym.Of(5)})))
	fmt.Println(tensor.Sizes(tensor.RowMajor(sym.Ints(3, 1, 5))))
	fmt.Println(tensor.Sizes(tensor.RowMajor(sym.Ints(3, 0, 5))))
	// Output:
	// [15, 5, 1]
	// [15, 5, 1]
	// [5*Max(1, x), 5, 1]
	// [5, 5, 1]
	// [5, 5, 1]
}

// A dimension of size 1 may have any stride, and a value without elements any strides.
func ExampleMeta_Holds() {
	for _, m := range []tensor.Meta{
		{Shape: []int{3, 1, 5}, Strides: []int{5, 5, 1}},
		{Shape: []int{3, 1, 5}, Strides: []int{5, 999999, 1}},
		{Shape: []int{3, 0, 5}, Strides: []int{5, 5, 1}},
		{Shape: []int{3, 0, 5}, Strides: []int{123456, 999999, 424242}},
	} {
		fmt.Println(m.Holds(tensor.IsContiguous))
	}
	// Output:
	// true
	// true
	// true
	// true
}

// The branching form answers under the guards that it recorded.
func ExampleType_Holds() {
	env := sym.NewEnv()
	t := tensor.Type{
		Shape:   unknown(env, []string{"x1", "x2", "x3"}, 3, 1, 5),
		Strides: unknown(env, []string{"y1", "y2", "y3"}, 5, 99999, 1),
	}
	fmt.Println(t.Holds(tensor.IsContiguous))
	fmt.Println(env.Guards())
	// Output:
	// true
	// [Ne(x1*x2*x3, 0) Ne(x3, 1) Eq(y3, 1) Eq(x2, 1) Ne(x1, 1) Eq(y1, x3)]
}

// The formula needs no guards: it is a constant, or the condition that must hold.
func ExampleType_Condition() {
	env := sym.NewEnv()
	x := unknown(env, []string{"x"}, 7)[0]
	v := tensor.Type{Shape: sym.Ints(3, 1, 5), Strides: []sym.Int{sym.Of(5), x, sym.Of(1)}}
	fmt.Println(v.Condition(tensor.IsContiguous))
	t := tensor.Type{
		Shape:   unknown(env, []string{"x1", "x2", "x3"}, 3, 1, 5),
		Strides: unknown(env, []string{"y1", "y2", "y3"}, 5, 99999, 1),
	}
	fmt.Println(t.Condition(tensor.IsContiguous))
	fmt.Println(len(env.Guards()))
	// Output:
	// True
	// Eq(x1*x2*x3, 0) | ((Eq(x2, 1) | Eq(y2, x3)) & (Eq(x3, 1) | Eq(y3, 1)) & (Eq(x1, 1) | Eq(y1, x2*x3)))
	// 0
}

// TestPredicatesAgree checks that the formula, the branching form and the code for numbers agree.
func TestPredicatesAgree(t *testing.T) {
	held := map[tensor.Predicate]int{}
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t)
		for _, p := range tensor.Predicates() {
			env, at := sym.NewEnv(), sym.Binding{}
			typ := hidden(t, env, m, at)
			want := m.Holds(p)
			got, err := typ.Condition(p).At(at)
			require.NoError(t, err)
			require.Equal(t, want, got, "%v of %v: %v", p, m, typ.Condition(p))
			require.Empty(t, env.Guards())
			require.Equal(t, want, typ.Holds(p), "%v of %v", p, typ)
			guarded(t, env, at)
			if want {
				held[p]++
			}
		}
	})
	require.Positive(t, held[tensor.IsNonOverlappingAndDense])
	require.Positive(t, held[tensor.NoOverlap])
}

// TestFormulasAgreeWithPyTorch compares the formulas, the branching forms and the code for numbers with
// PyTorch's answers. The suggested format shows whether strides are like channels-last.
func TestFormulasAgreeWithPyTorch(t *testing.T) {
	seen := map[tensor.Predicate]map[bool]int{}
	step := testsize.Of(4, 1)
	for i, r := range load[formatRow](t, "formats.json") {
		if i%step > 0 {
			continue
		}
		want := map[tensor.Predicate]bool{
			tensor.IsContiguous: r.C, tensor.IsChannelsLast: r.CL, tensor.IsChannelsLast3d: r.CL3,
			tensor.IsNonOverlappingAndDense: slices.Equal(r.Like, r.Strides), // see TestPredicatesAgreeWithPyTorch
		}
		if r.Suggest != nil {
			want[tensor.SuggestsContiguous] = *r.Suggest == "contiguous"
			want[tensor.SuggestsChannelsLast] = *r.Suggest == "channels_last"
			want[tensor.SuggestsChannelsLast3d] = *r.Suggest == "channels_last_3d"
			want[tensor.StridesLikeChannelsLast] = want[tensor.SuggestsChannelsLast]
			want[tensor.StridesLikeChannelsLast3d] = want[tensor.SuggestsChannelsLast3d]
			own := func(f tensor.MemoryFormat) bool {
				st, err := f.Strides(r.Shape)
				return err == nil && slices.Equal(st, r.Strides)
			}
			want[tensor.SuggestsChannelsLastExactly] = want[tensor.SuggestsChannelsLast] && own(tensor.ChannelsLast)
			want[tensor.SuggestsChannelsLast3dExactly] = want[tensor.SuggestsChannelsLast3d] && own(tensor.ChannelsLast3d)
		}
		m := tensor.Meta{DType: tensor.Float32, Shape: r.Shape, Strides: r.Strides}
		for p, holds := range want {
			env, at := sym.NewEnv(), sym.Binding{}
			var sizes, strides []string
			for d := range r.Shape {
				sizes, strides = append(sizes, fmt.Sprint("x", d)), append(strides, fmt.Sprint("y", d))
				at[sizes[d]], at[strides[d]] = r.Shape[d], r.Strides[d]
			}
			typ := tensor.Type{DType: m.DType, Shape: unknown(env, sizes, r.Shape...),
				Strides: unknown(env, strides, r.Strides...)}
			got, err := typ.Condition(p).At(at)
			require.NoError(t, err)
			require.Equal(t, holds, got, "%v of %v by %v", p, m, typ.Condition(p))
			require.Equal(t, holds, typ.Holds(p), "%v of %v", p, m)
			require.Equal(t, holds, m.Holds(p), "%v of %v", p, m)
			if seen[p] == nil {
				seen[p] = map[bool]int{}
			}
			seen[p][holds]++
		}
	}
	require.Len(t, seen, len(tensor.Predicates())-1) // PyTorch tells nobody of no_overlap
	for p, n := range seen {
		assert.Greater(t, min(n[true], n[false]), 10/step, "%v: too few vectors to say anything", p)
	}
}

// TestGuardsAgreeWithPyTorch compares the guards of the branching form with those that PyTorch's shape
// environment recorded: the same comparisons with the same answers, in the same order.
func TestGuardsAgreeWithPyTorch(t *testing.T) {
	answers := map[bool]int{}
	for _, r := range load[struct {
		Shape, Strides []int
		Contiguous     bool
		Guards         []string
	}](t, "guards.json") {
		names := []string{"x1", "x2", "x3", "x4", "y1", "y2", "y3", "y4"}
		env, rank := sym.NewEnv(), len(r.Shape)
		typ := tensor.Type{Shape: unknown(env, names[:rank], r.Shape...),
			Strides: unknown(env, names[4:4+rank], r.Strides...)}
		require.Equal(t, r.Contiguous, typ.Holds(tensor.IsContiguous), "%v", r)
		var got []string
		for _, g := range env.Guards() {
			got = append(got, g.String())
		}
		require.Equal(t, r.Guards, got, "%v", r)
		answers[r.Contiguous]++
	}
	assert.Greater(t, min(answers[true], answers[false]), 10)
}

// TestKnownOrderNeedsNoGuard checks that form decides for layouts of the planner.
func TestKnownOrderNeedsNoGuard(t *testing.T) {
	env := sym.NewEnv()
	shape := unknown(env, []string{"N", "C", "H", "W"}, 2, 3, 4, 5)
	row := tensor.NewType(tensor.Float32, shape...)
	assert.True(t, row.IsContiguous())
	assert.True(t, row.IsNonOverlappingAndDense())
	last, err := tensor.NewTypeFormat(tensor.Float32, shape, tensor.ChannelsLast)
	require.NoError(t, err)
	assert.True(t, last.IsChannelsLast())
	assert.True(t, last.IsNonOverlappingAndDense())
	assert.Empty(t, env.Guards())
}

func TestParsePredicate(t *testing.T) {
	for _, p := range tensor.Predicates() {
		got, err := tensor.ParsePredicate(p.String())
		require.NoError(t, err)
		assert.Equal(t, p, got)
		assert.NotEmpty(t, p.Doc())
	}
	_, err := tensor.ParsePredicate("contigous")
	assert.ErrorContains(t, err, `unknown predicate "contigous"`)
	assert.ErrorContains(t, err, "did you mean contiguous")
}
