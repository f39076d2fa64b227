package conv_test

import (
	"slices"
	"testing"

	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/kernels/internal/kerneltest"
	"github.com/graphrun/graphrun/tensor"
)

// kernelOf lowers a channels-last convolution that keeps the image size. The kernel is nil if the named implementation
// does not support it.
func kernelOf(t *testing.T, name string, c, size, out, window, groups int) *graph.Kernel {
	t.Helper()
	x, err := tensor.NewFormat(tensor.Float32, []int{1, c, size, size}, tensor.ChannelsLast)
	if err != nil {
		t.Fatal(err)
	}
	in := []*tensor.Tensor{kerneltest.BenchTensor(x),
		kerneltest.BenchTensor(tensor.New(tensor.Float32, out, c/groups, window, window)), nil}
	p, err := kerneltest.NewProductCall("conv2d", graph.Attrs{"padding": window / 2, "groups": groups}, in, 1)
	if err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(p.Op.Impls, func(m graph.Impl) bool { return m.Name == name })
	m := &p.Op.Impls[i]
	walks := m.Walks(p.Call, nil)
	if len(walks) == 0 {
		return nil
	}
	p.Call.Impl, p.Call.Walk, p.Call.Out[0] = m, walks[0], walks[0].ResultLayout(0, p.Call.Out[0])
	k, err := m.Lower(p.Call)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// TestWinogradIsShared checks that the expensive phases of a Winograd convolution have several chunks, even with few
// tiles.
func TestWinogradIsShared(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	for _, name := range []string{"winograd2", "winograd4"} {
		for _, s := range [][3]int{{128, 14, 32}, {128, 7, 32}, {160, 14, 320}, {192, 7, 384}} {
			k := kernelOf(t, name, s[0], s[1], s[2], 3, 1)
			if k == nil {
				continue
			}
			// The first phase transforms the weight; the last of four may be small.
			for i, ph := range k.Phases[1:min(3, len(k.Phases))] {
				if ph.Chunks < 2 {
					t.Errorf("%s, %v: phase %d of %d has %d chunks", name, s, i+1, len(k.Phases), ph.Chunks)
				}
			}
		}
	}
}

// TestDepthwiseHalves checks that the first half of the chunks of a depthwise convolution computes the first half of
// the image's rows.
func TestDepthwiseHalves(t *testing.T) {
	if err := jit.Available(); err != nil {
		t.Skip(err)
	}
	for _, s := range [][3]int{{480, 14, 5}, {120, 28, 5}, {120, 28, 3}, {576, 14, 3}, {72, 56, 3}, {32, 112, 3}} {
		c, size := s[0], s[1]
		k := kernelOf(t, "depthwise_nhwc", c, size, c, s[2], c)
		if k == nil {
			continue
		}
		ph := k.Phases[len(k.Phases)-1]
		if ph.Flow == nil || ph.Chunks%2 != 0 {
			t.Fatalf("%v: %d chunks", s, ph.Chunks)
		}
		if made := ph.Flow.FinalElements(ph.Chunks/2 - 1); made != size/2*size*c {
			t.Errorf("%v: half of %d chunks make %d rows", s, ph.Chunks, made/size/c)
		}
	}
}
