package tensor_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/sym"
	"github.com/graphrun/graphrun/tensor"
)

// drawMeta draws a small value of any layout: permuted, with gaps, expanded, overlapping
// or without elements.
func drawMeta(t *rapid.T) tensor.Meta {
	shape := rapid.SliceOfN(rapid.SampledFrom([]int{1, 1, 2, 2, 3, 4, 0}), 0, 4).Draw(t, "shape")
	order := rapid.Permutation(indices(len(shape))).Draw(t, "order")
	st, step := make([]int, len(shape)), 1
	for _, d := range order {
		st[d] = step
		step *= max(shape[d], 1) * rapid.SampledFrom([]int{1, 1, 1, 1, 2}).Draw(t, "gap")
	}
	if len(st) > 0 && rapid.IntRange(0, 3).Draw(t, "odd") == 0 {
		st[rapid.IntRange(0, len(st)-1).Draw(t, "at")] = rapid.IntRange(0, 5).Draw(t, "stride")
	}
	return tensor.Meta{DType: tensor.Float32, Shape: shape, Strides: st, Offset: rapid.IntRange(0, 3).Draw(t, "offset")}
}

func indices(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i
	}
	return out
}

// places lists the storage indices of the elements, in logical order.
func places(m tensor.Meta) []int {
	var out []int
	m.Walk(func(at int) { out = append(out, m.Offset+at) })
	return out
}

// affine reports whether there are strides that put the elements of shape at the places.
func affine(shape, at []int) bool {
	unit := tensor.ContiguousStrides(shape)
	st := make([]int, len(shape))
	for d, s := range shape {
		if s > 1 {
			st[d] = at[unit[d]] - at[0]
		}
	}
	i, ok := 0, true
	tensor.Meta{DType: tensor.Uint8, Shape: shape, Strides: st}.Walk(func(p int) {
		ok = ok && at[i] == at[0]+p
		i++
	})
	return ok
}

// TestReshapeKeepsEveryElement checks both answers of ReshapeStrides: strides that it returns must visit the
// same places in the same order; if it returns none, there must be no such strides.
func TestReshapeKeepsEveryElement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t)
		left := m.Numel()
		if left == 0 {
			return
		}
		var shape []int
		for left > 1 {
			f := rapid.IntRange(1, left).Filter(func(f int) bool { return left%f == 0 }).Draw(t, "factor")
			shape = append(shape, f)
			left /= f
		}
		want := places(m)
		strides, ok := tensor.ReshapeStrides(m.Type(), sym.Ints(shape...))
		st := make([]int, len(strides))
		for d, s := range strides {
			st[d], _ = s.Known()
		}
		if ok != affine(shape, want) {
			t.Fatalf("%v to %v: strides %v %v", m, shape, st, ok)
		}
		if got := (tensor.Meta{DType: m.DType, Shape: shape, Strides: st, Offset: m.Offset}); ok &&
			!slices.Equal(places(got), want) {
			t.Fatalf("%v became %v", m, got)
		}
	})
}

func TestPermuteThenBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t)
		dims := rapid.Permutation(indices(m.Rank())).Draw(t, "dims")
		back := make([]int, len(dims))
		for i, d := range dims {
			back[d] = i
		}
		p, err := m.Permute(dims)
		if err == nil {
			p, err = p.Permute(back)
		}
		if err != nil || !p.SameLayout(m) || p.Offset != m.Offset {
			t.Fatalf("%v by %v and back: %v, %v", m, dims, p, err)
		}
	})
}

// TestPartsCoverTheWhole joins the parts of Split, SplitSizes and Chunk.
func TestPartsCoverTheWhole(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t)
		if m.Rank() == 0 {
			return
		}
		dim := rapid.IntRange(0, m.Rank()-1).Draw(t, "dim")
		k := rapid.IntRange(1, 5).Draw(t, "k")
		cut := m.Split
		if rapid.Bool().Draw(t, "chunk") {
			cut = m.Chunk
		}
		parts, err := cut(k, dim)
		if err != nil {
			t.Fatal(err)
		}
		at := 0
		for _, p := range parts {
			for i := range p.Shape[dim] {
				a, err := p.Select(dim, i)
				b, err2 := m.Select(dim, at)
				if err != nil || err2 != nil || !slices.Equal(places(a), places(b)) {
					t.Fatalf("%v cut by %d along %d: part %v index %d is not index %d of the whole", m, k, dim, p, i, at)
				}
				at++
			}
		}
		if at != m.Shape[dim] {
			t.Fatalf("%v cut by %d along %d: parts %v hold %d indices", m, k, dim, parts, at)
		}
	})
}

// TestViewsOfAnythingStayInside calls every view with random arguments: none may panic, return a meta that
// Check wrongly accepts, or reach past the operand's elements.
func TestViewsOfAnythingStayInside(t *testing.T) {
	anyInt := rapid.OneOf(rapid.IntRange(-6, 6), rapid.Int())
	some := rapid.SliceOfN(anyInt, 0, 5)
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t)
		a, b, c := anyInt.Draw(t, "a"), anyInt.Draw(t, "b"), anyInt.Draw(t, "c")
		s, z := some.Draw(t, "s"), some.Draw(t, "z")
		var out []tensor.Meta
		add := func(r tensor.Meta, err error) {
			if err == nil {
				out = append(out, r)
			}
		}
		addAll := func(r []tensor.Meta, err error) { out = append(out, r...) }
		add(m.Permute(s))
		add(m.Transpose(a, b))
		add(m.MoveDim(s, z))
		add(m.Select(a, b))
		add(m.Slice(a, &b, &c, max(c, 1)))
		add(m.Slice(a, nil, &b, c))
		add(m.Narrow(a, b, c))
		add(m.Squeeze(s...))
		add(m.Unsqueeze(a))
		add(m.Diagonal(a, b, c))
		add(m.View(s))
		add(m.Expand(s))
		add(m.Unfold(a, b, c))
		add(m.AsStrided(s, z, a, m.Extent()))
		addAll(m.Split(a, b))
		addAll(m.SplitSizes(s, a))
		addAll(m.Chunk(a%1000, b))
		for _, r := range out {
			if err := r.Check(); err != nil {
				t.Fatalf("view of %v: %v fails its own check: %v", m, r, err)
			}
			if r.Extent() > m.Extent() {
				t.Fatalf("view of %v reaches past it: %v", m, r)
			}
		}
	})
}

func TestBroadcastIsSymmetric(t *testing.T) {
	sizes := rapid.SliceOfN(rapid.IntRange(0, 3), 0, 4)
	rapid.Check(t, func(t *rapid.T) {
		a, b := sizes.Draw(t, "a"), sizes.Draw(t, "b")
		ab, err := tensor.Broadcast(a, b)
		ba, err2 := tensor.Broadcast(b, a)
		if (err == nil) != (err2 == nil) || !slices.Equal(ab, ba) {
			t.Fatalf("%v with %v: %v %v, %v %v", a, b, ab, err, ba, err2)
		}
		if err != nil {
			return
		}
		for _, s := range [][]int{a, b} {
			if _, err := tensor.New(tensor.Uint8, s...).Expand(ab); err != nil {
				t.Fatalf("%v does not expand to %v: %v", s, ab, err)
			}
		}
	})
}
