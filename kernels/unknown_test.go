package kernels_test

import (
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/graphrun/graphrun/fusion"
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/testsize"
	"github.com/graphrun/graphrun/kernels"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/kernels/internal/kit"
	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// Inference with symbolic sizes must agree with inference with numbers: at the hints, and at all other sizes for which
// the guards hold.

// hiddenCall is a call whose sizes, of operands and attributes, are symbols with the actual sizes as hints. Strides of
// dense operands are derived from the sizes; others are separate symbols.
type hiddenCall struct {
	*graph.Call
	env *sym.Env
	at  sym.Binding // the hints
}

func hideSizes(op *graph.Op, e graph.Example) (*hiddenCall, error) {
	c, err := kerneltest.CallOf(op, e.Attrs, e.In)
	h := &hiddenCall{c, sym.NewEnv(), sym.Binding{}}
	hide := func(name string, i int, from []int) []sym.Int {
		out := make([]sym.Int, len(from))
		for d, n := range from {
			name := fmt.Sprintf("%s%d_%d", name, i, d)
			s, symErr := h.env.Symbol(name, 0, math.MaxInt, n)
			err = errors.Join(err, symErr)
			out[d], h.at[name] = s, n
		}
		return out
	}
	for i, m := range e.In {
		if m.DType == tensor.Invalid {
			continue
		}
		t := tensor.Type{DType: m.DType, Shape: hide("s", i, m.Shape)}
		if slices.Equal(m.Strides, tensor.DenseStrides(m.Shape, m.Strides)) {
			order := make([]int, m.Rank())
			for d := range order {
				order[d] = d
			}
			slices.SortStableFunc(order, func(a, b int) int { return m.Strides[b] - m.Strides[a] })
			shape := make([]sym.Int, m.Rank())
			for i, d := range order {
				shape[i] = t.Shape[d]
			}
			t.Strides = make([]sym.Int, m.Rank())
			for i, s := range tensor.RowMajor(shape) {
				t.Strides[order[i]] = s
			}
		} else {
			t.Strides = hide("t", i, m.Strides)
		}
		h.In[i].Value.Type = t
	}
	h.Attrs = mapSizes(h.Attrs, func(s sym.Int) sym.Int {
		n, _ := s.Known()
		if n < 0 {
			return s // -1 is not a size
		}
		return hide("a", len(h.at), []int{n})[0]
	})
	return h, err
}

// mapSizes returns the attributes with their sizes mapped by f.
func mapSizes(attrs any, f func(sym.Int) sym.Int) any {
	out := reflect.New(reflect.TypeOf(attrs).Elem())
	out.Elem().Set(reflect.ValueOf(attrs).Elem())
	for i := range out.Elem().NumField() {
		switch p := out.Elem().Field(i).Addr().Interface().(type) {
		case *sym.Int:
			*p = f(*p)
		case **sym.Int:
			if *p != nil {
				s := f(**p)
				*p = &s
			}
		case *[]sym.Int:
			*p = slices.Clone(*p)
			for i, s := range *p {
				(*p)[i] = f(s)
			}
		}
	}
	return out.Interface()
}

// numbers returns the call with numbers for the symbols.
func (h *hiddenCall) numbers(at sym.Binding) (*graph.Call, error) {
	var all error
	c := &graph.Call{In: slices.Clone(h.In), Attrs: mapSizes(h.Attrs, func(s sym.Int) sym.Int {
		n, err := s.At(at)
		all = errors.Join(all, err)
		return sym.Of(n)
	})}
	for i, a := range h.In {
		if a.Kind != graph.Null {
			m, err := a.Value.Type.At(at)
			all = errors.Join(all, err)
			c.In[i].Value = &graph.Value{Name: a.Value.Name, Meta: m}
		}
	}
	return c, all
}

// drawSizes draws sizes other than the hints: some symbols change, or all with the same hint.
func (h *hiddenCall) drawSizes(r *rand.Rand) sym.Binding {
	at := sym.Binding{}
	change := func(n int) int {
		return []int{n + 1, 2 * n, 3 * n, n + 2, max(n-1, 0), n}[r.IntN(6)]
	}
	to, alike := map[int]int{}, r.IntN(4) > 0
	for _, name := range slices.Sorted(maps.Keys(h.at)) {
		n := h.at[name]
		if _, ok := to[n]; !ok || !alike {
			if to[n] = n; r.IntN(3) == 0 {
				to[n] = change(n)
			}
		}
		at[name] = to[n]
	}
	return at
}

// guardsHold reports whether all guards hold.
func (h *hiddenCall) guardsHold(at sym.Binding) (bool, error) {
	for _, g := range h.env.Guards() {
		if ok, err := g.At(at); err != nil || !ok {
			return false, err
		}
	}
	return true, nil
}

// describe prints results at the given sizes; for results that depend on data, only the dtype.
func describe(res []graph.Result, at sym.Binding) (string, error) {
	text := ""
	for _, r := range res {
		if r.Dynamic {
			text += fmt.Sprintln(r.Type.DType)
			continue
		}
		m, err := r.Type.At(at)
		if err != nil {
			return "", err
		}
		text += fmt.Sprintln(m, r.Alias)
	}
	return text, nil
}

// compareSizes infers a call with symbols, and with numbers at the hints and at other sizes for which the guards hold.
// It returns the number of the latter and the first difference.
func compareSizes(op *graph.Op, e graph.Example, r *rand.Rand) (others int, err error) {
	h, err := hideSizes(op, e)
	if err != nil {
		return 0, err
	}
	res, err := op.Infer(h.Call)
	if err != nil {
		return 0, fmt.Errorf("with symbolic sizes: %w", err)
	}
	if ok, err := h.guardsHold(h.at); err != nil || !ok {
		return 0, fmt.Errorf("guards %v do not hold at the hints %v: %w", h.env.Guards(), h.at, err)
	}
	for i := range 200 {
		at := h.at
		if i > 0 {
			at = h.drawSizes(r)
		}
		if ok, err := h.guardsHold(at); err != nil || !ok {
			continue
		}
		got, err := describe(res, at)
		if err != nil {
			return others, err
		}
		c, err := h.numbers(at)
		if err != nil {
			return others, err
		}
		want, err := op.Infer(c)
		if err != nil {
			return others, fmt.Errorf("at %v: %w, which guards %v should exclude", at, err, h.env.Guards())
		}
		text, err := describe(want, nil)
		if err != nil {
			return others, err
		}
		if got != text {
			return others, fmt.Errorf("at %v: %swant %sguards %v", at, got, text, h.env.Guards())
		}
		if !maps.Equal(at, h.at) {
			others++
		}
	}
	return others, nil
}

// TestUnknownSizes infers the examples of all ops with symbols for all sizes.
func TestUnknownSizes(t *testing.T) {
	testsize.Long(t)
	for _, op := range kernels.All() {
		others := 0
		var failed error
		for i, e := range op.Examples {
			n, err := compareSizes(op, e, rand.New(rand.NewPCG(1, uint64(i))))
			others += n
			if err != nil {
				failed = errors.Join(failed, fmt.Errorf("example %d: %w", i, err))
			}
		}
		assert.NoError(t, failed, op.Name)
		assert.True(t, others > 0 || len(op.Examples) == 0 || op.Params == nil, "%s: no other sizes were compared", op.Name)
	}
}

// TestUnknownSizesFindsNumbers checks that an op that uses a hint as the size is detected.
func TestUnknownSizesFindsNumbers(t *testing.T) {
	op, err := fusion.Define(graph.Op{
		Semantics: graph.Semantics{
			Name: "by_hints", Doc: "Takes numbers.", Params: []graph.Param{kit.Self},
			Schema: graph.SchemaOf[*kit.EmptyAttrs](), NoRef: "it is never run",
			Infer: func(c *graph.Call) ([]graph.Result, error) {
				return c.NewResult(tensor.New(c.Meta(0).DType, c.Meta(0).Shape...).Type()), nil
			},
		},
		Lowerings: graph.Lowerings{
			Compile: func(*graph.Call) (*graph.Kernel, error) { return &graph.Kernel{}, nil },
		},
	})
	require.NoError(t, err)
	_, err = compareSizes(op, graph.Example{In: []tensor.Meta{kit.F32(2, 3)}}, rand.New(rand.NewPCG(1, 1)))
	assert.ErrorContains(t, err, "want")
}
