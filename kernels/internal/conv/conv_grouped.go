package conv

import (
	"github.com/graphrun/graphrun/graph"
	"github.com/graphrun/graphrun/kernels/internal/multiply"
	"github.com/graphrun/graphrun/tensor"
)

// Groups of few channels leave most lanes of register tiles empty, whose vectors are the output channels of one group.
// Where windows slide, a vector has the channels of several groups, and each channel of the input is brought to the
// lanes of its group: an instruction for all results of a row that it is under.

// slidesGroups reports whether direct convolution by pixels is by windows that slide over several groups at once: where
// that is fewer instructions. Sizes and the instruction set alone decide.
func (s *convShape) slidesGroups(d tensor.DType) bool {
	if s.groups == 1 || s.cg < 2 || s.deep.in > 0 || s.depth() == 0 || s.depth() > blockTerms || !slides(s, d) {
		return false
	}
	f, _ := newSlideShape(s, d.Size())
	return s.groupInstructions(&f) < float64(f.vectors*f.lanes*s.kh*s.kw)
}

// groupInstructions are those of a pixel of the result, within an image: multiplications, and elements of the input
// that are brought to the lanes of their groups.
func (s *convShape) groupInstructions(f *slideShape) (n float64) {
	cols := min(f.tile[1], s.ow)
	inputs := min((cols-1)*s.sw+(s.kw-1)*s.dw+1, cols*s.kw)
	return float64(f.vectors*s.cg*s.kh) * (float64(s.kw) + float64(inputs)/float64(cols))
}

// groupWork adds what windows take that slide over groups of several channels: multiplications, and as much for each
// element that is brought to the lanes of its group.
func (s *convShape) groupWork(w *graph.Work, d tensor.DType) {
	f, _ := newSlideShape(s, d.Size())
	down := float64(seen(s.sh, s.ph, s.dh, s.h, s.kh, s.oh)) / float64(s.oh) / float64(s.kh)
	across := float64(seen(s.sw, s.pw, s.dw, s.w, s.kw, s.ow)) / float64(s.ow) / float64(s.kw)
	multiply.Stored(w, s.call)
	w.Wait(directBegin, 1)
	if !s.call.Constant(1) {
		w.Do(multiply.PackRow, float64(s.o*s.depth()))
	}
	pixels := float64(s.n * s.oh * s.ow)
	w.Do(directTaps, pixels*down*across*s.groupInstructions(&f)*float64(f.bytes)/4)
	w.Do(directTiles, pixels*float64(f.vectors)/float64(f.tile[0]*f.tile[1]))
	w.Flops = 2 * pixels * float64(s.o*s.depth())
}

// convGroups is the kernel of windows that slide over groups of several channels.
func convGroups(s *convShape, d tensor.DType) (*graph.Kernel, error) {
	weight, err := newPackedWeight(s.call, s.slidePanels(d))
	if err != nil {
		return nil, err
	}
	t, err := newDepthwiseSlide(s, d)
	if err != nil {
		return nil, err
	}
	return &graph.Kernel{Phases: append(weight.phases(), t.phase(weight.at)), Scratch: weight.Scratch,
		Worker: s.biasBytes(t.size), Code: t.listings}, nil
}
