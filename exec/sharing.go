package exec

import (
	"cmp"
	"errors"
	"slices"
	"sort"

	"github.com/graphrun/graphrun/tensor"
)

// place is where a tensor lies: its storage, and the addresses of its elements, which tell
// of storages that were made of the same bytes.
type place struct {
	storage  *tensor.Storage
	from, to uintptr
}

func placeOf(t *tensor.Tensor) place {
	from, to := t.Span()
	return place{t.Storage(), from, to}
}

// meets reports whether some of the bytes are the same.
func (a place) meets(b place) bool { return a.from < b.to && b.from < a.to }

var (
	errSharedTensor = errors.New("an input or another output")
	errSharedConst  = errors.New("a constant")
)

// take notes a tensor that the run is to write, and refuses one whose storage is that of an
// input or of another such tensor, or whose memory is that of a constant; the error says
// which. The places of the inputs are found when the first is taken: a run to which no
// tensor is given for an output never looks at them.
func (s *Session) take(in []*tensor.Tensor, t *tensor.Tensor) error {
	if len(s.taken) == 0 {
		for _, x := range in {
			s.taken = append(s.taken, placeOf(x))
		}
	}
	at := placeOf(t)
	if at.from == at.to {
		return nil
	}
	for _, x := range s.taken {
		if x.storage == at.storage || x.meets(at) {
			return errSharedTensor
		}
	}
	if s.p.holds(at) {
		return errSharedConst
	}
	s.taken = append(s.taken, at)
	return nil
}

// holds reports whether a constant is there.
func (p *Program) holds(at place) bool {
	i := sort.Search(len(p.constants), func(i int) bool { return p.constants[i].to > at.from })
	return i < len(p.constants) && p.constants[i].meets(at)
}

// findConstants lists the places of constants, which no run may write, in the order of their
// addresses; those that share bytes are one. A run of a graph of a few small nodes takes
// less time than to look at every constant would.
func (p *Program) findConstants() {
	var all []place
	for i := range p.storages {
		if s := &p.storages[i]; s.kind == inConst {
			if at := placeOf(s.data); at.from < at.to {
				all = append(all, at)
			}
		}
	}
	slices.SortFunc(all, func(a, b place) int { return cmp.Compare(a.from, b.from) })
	for _, at := range all {
		if n := len(p.constants); n > 0 && p.constants[n-1].meets(at) {
			p.constants[n-1].to = max(p.constants[n-1].to, at.to)
			continue
		}
		p.constants = append(p.constants, at)
	}
}
