package tensor_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/graphrun/graphrun/tensor"
)

type formatRow struct {
	Shape, Strides []int
	C, CL, CL3     bool
	Like           []int
	Suggest        *string
}

func TestPredicatesAgreeWithPyTorch(t *testing.T) {
	suggested := map[string]int{}
	for _, r := range load[formatRow](t, "formats.json") {
		m := tensor.Meta{DType: tensor.Float32, Shape: r.Shape, Strides: r.Strides}
		if m.IsContiguous() != r.C || m.Is(tensor.Contiguous) != r.C {
			t.Errorf("%v: contiguous %v", m, !r.C)
		}
		if m.IsChannelsLast() != r.CL || m.Is(tensor.ChannelsLast) != r.CL {
			t.Errorf("%v: channels_last %v", m, !r.CL)
		}
		if m.IsChannelsLast3d() != r.CL3 || m.Is(tensor.ChannelsLast3d) != r.CL3 {
			t.Errorf("%v: channels_last_3d %v", m, !r.CL3)
		}
		// empty_like keeps the strides of a non-overlapping and dense value, and gives other values dense
		// strides. These differ, so the result shows the predicate.
		dense := slices.Equal(r.Like, r.Strides)
		if m.IsNonOverlappingAndDense() != dense {
			t.Errorf("%v: non_overlapping_and_dense %v", m, !dense)
		}
		if got := tensor.DenseStrides(r.Shape, r.Strides); !dense && !slices.Equal(got, r.Like) {
			t.Errorf("%v: dense strides %v, want %v", m, got, r.Like)
		}
		if r.Suggest == nil {
			continue
		}
		suggested[*r.Suggest]++
		if got := m.SuggestMemoryFormat(false).String(); got != *r.Suggest {
			t.Errorf("%v: suggests %s, want %s", m, got, *r.Suggest)
		}
	}
	for _, f := range []string{"contiguous", "channels_last", "channels_last_3d"} {
		if suggested[f] < 10 {
			t.Errorf("the vectors hold %d values that suggest %s: too few to say anything", suggested[f], f)
		}
	}
}

func TestDensityOfPermutedAndPadded(t *testing.T) {
	permuted := tensor.Meta{DType: tensor.Float32, Shape: []int{3, 4}, Strides: []int{1, 3}}
	if !permuted.IsNonOverlappingAndDense() || permuted.IsContiguous() {
		t.Errorf("%v must be dense and not contiguous", permuted)
	}
	if got := permuted.Flags(); !slices.Equal(got, []string{"non_overlapping_and_dense"}) {
		t.Errorf("flags %v", got)
	}
	padded := tensor.Meta{DType: tensor.Float32, Shape: []int{4, 2, 3}, Strides: []int{8, 3, 1}}
	if padded.IsNonOverlappingAndDense() || len(padded.Flags()) != 0 {
		t.Errorf("%v has gaps and must not be dense", padded)
	}
}

func TestFormatStrides(t *testing.T) {
	for _, c := range []struct {
		f           tensor.MemoryFormat
		shape, want []int
		err         string
	}{
		{tensor.Contiguous, []int{2, 0, 3}, []int{3, 3, 1}, ""},
		{tensor.ChannelsLast, []int{2, 3, 4, 5}, []int{60, 1, 15, 3}, ""},
		{tensor.ChannelsLast, []int{2, 3, 0, 5}, []int{0, 1, 15, 3}, ""},
		{tensor.ChannelsLast3d, []int{2, 3, 4, 5, 6}, []int{360, 1, 90, 18, 3}, ""},
		{tensor.ChannelsLast, []int{2, 3, 4}, nil, "required rank 4 tensor to use channels_last format"},
		{tensor.ChannelsLast3d, []int{2, 3, 4, 5}, nil, "required rank 5 tensor to use channels_last_3d format"},
	} {
		m, err := tensor.NewFormat(tensor.Float32, c.shape, c.f)
		if msg := errText(err); msg != c.err || err == nil && !slices.Equal(m.Strides, c.want) {
			t.Errorf("%v of %v: %v, %q", c.f, c.shape, m.Strides, msg)
		}
	}
}

func errText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestDenseMeansABijection checks the definition of dense: the elements fill exactly as many places in
// storage as there are elements, without a gap.
func TestDenseMeansABijection(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t)
		if m.Numel() == 0 {
			return
		}
		seen := map[int]bool{}
		last := 0
		m.Walk(func(at int) { seen[at] = true; last = max(last, at) })
		if want := len(seen) == m.Numel() && last == m.Numel()-1; m.IsNonOverlappingAndDense() != want {
			t.Fatalf("%v: dense %v, but %d elements are at %d places up to %d", m, !want, m.Numel(), len(seen), last)
		}
		dense := m.WithStrides(tensor.DenseStrides(m.Shape, m.Strides))
		if !dense.IsNonOverlappingAndDense() {
			t.Fatalf("dense strides of %v are not dense: %v", m, dense)
		}
	})
}

func TestExtentIsOnePastTheLastElement(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := drawMeta(t)
		want, n := 0, 0
		m.Walk(func(at int) { want = max(want, m.Offset+at+1); n++ })
		if m.Extent() != want || n != m.Numel() {
			t.Fatalf("%v: extent %d over %d elements, want %d over %d", m, m.Extent(), m.Numel(), want, n)
		}
	})
}

// With exactMatch the strides of dimensions of size 0 and 1 count too (suggest_memory_format(true)).
func TestSuggestMemoryFormatExactly(t *testing.T) {
	for _, c := range []struct {
		shape, strides []int
		like, exact    tensor.MemoryFormat
	}{
		{[]int{2, 3, 4, 5}, []int{60, 20, 5, 1}, tensor.Contiguous, tensor.Contiguous},
		{[]int{2, 3, 4, 5}, []int{60, 1, 15, 3}, tensor.ChannelsLast, tensor.ChannelsLast},
		{[]int{1, 3, 4, 5}, []int{60, 1, 15, 3}, tensor.ChannelsLast, tensor.ChannelsLast},
		{[]int{1, 3, 4, 5}, []int{99, 1, 15, 3}, tensor.ChannelsLast, tensor.Contiguous},
		{[]int{2, 3, 4, 5}, []int{120, 1, 30, 3}, tensor.ChannelsLast, tensor.Contiguous}, // rows with gaps
		{[]int{2, 1, 4, 5}, []int{20, 1, 5, 1}, tensor.ChannelsLast, tensor.ChannelsLast},
		{[]int{2, 1, 4, 5}, []int{20, 20, 5, 1}, tensor.Contiguous, tensor.Contiguous},
		{[]int{2, 2, 3, 4, 5}, []int{120, 1, 40, 10, 2}, tensor.ChannelsLast3d, tensor.ChannelsLast3d},
		{[]int{1, 2, 3, 4, 5}, []int{240, 1, 40, 10, 2}, tensor.ChannelsLast3d, tensor.Contiguous},
		{[]int{4, 5}, []int{1, 4}, tensor.Contiguous, tensor.Contiguous},
	} {
		m := tensor.Meta{DType: tensor.Float32, Shape: c.shape, Strides: c.strides}
		if got := m.SuggestMemoryFormat(false); got != c.like {
			t.Errorf("%v resembles %v, want %v", m, got, c.like)
		}
		if got := m.SuggestMemoryFormat(true); got != c.exact {
			t.Errorf("%v is exactly %v, want %v", m, got, c.exact)
		}
	}
}
