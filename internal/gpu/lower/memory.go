package lower

import (
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// run is a sequence of contiguous numbers in memory: elements, or the parts of complex elements.
type run struct {
	d     tensor.DType // real
	n     int          // a power of 2
	align int          // bytes
}

// runs returns the sequences that a thread accesses in an operand, and the bytes between them.
func (p *pointwise) runs(i int) (r run, count, stride int) {
	d := p.dtypes[i]
	r = run{d: d.ToReal(), n: 1, align: p.align[i]}
	if d.IsComplex() {
		r.n = 2
	}
	switch {
	case p.isUnit(i):
		r.n *= p.vector
		return r, 1, 0
	case p.strides[i][0] == 0:
		return r, 1, 0
	}
	return r, p.vector, p.strides[i][0]
}

// load returns the numbers of a thread: those of all its elements, or of one element if the operand has stride 0.
func (p *pointwise) load(i int, at ir.Value) []ir.Value {
	r, count, stride := p.runs(i)
	var list []ir.Value
	for k := range count {
		list = append(list, p.loadRun(r, p.plus(at, k*stride))...)
	}
	return list
}

func (p *pointwise) store(i int, at ir.Value, values []ir.Value) {
	r, count, stride := p.runs(i)
	if p.strides[i][0] == 0 {
		values = values[len(values)-r.n:] // all elements are stored at one address
	}
	for k := range count {
		p.storeRun(r, p.plus(at, k*stride), values[k*r.n:][:r.n])
	}
}

func (s *scalars) plus(at ir.Value, bytes int) ir.Value {
	if bytes == 0 {
		return at
	}
	return s.do(lane.Add, tensor.Uint64, at, s.Const(tensor.Uint64, uint64(bytes)))
}

// words returns how a sequence is accessed: the dtype of a word, the number of words of an access, and the number of
// accesses. An access has at most 16 bytes and not more than the alignment.
func (r run) words() (d tensor.DType, n, accesses int) {
	total := r.n * r.d.Size()
	bytes := min(16, r.align, total)
	word := max(r.d.Size(), min(bytes, 4))
	d = map[int]tensor.DType{1: tensor.Uint8, 2: tensor.Uint16, 4: tensor.Uint32, 8: tensor.Uint64}[word]
	return d, max(bytes/word, 1), total / max(bytes, word)
}

func (s *scalars) loadRun(r run, at ir.Value) []ir.Value {
	d, n, accesses := r.words()
	var list []ir.Value
	for k := range accesses {
		for _, w := range s.Load(d, n, s.plus(at, k*n*d.Size())) {
			for part := range d.Size() / r.d.Size() {
				shifted := w
				if part > 0 {
					shifted = s.do(lane.Shr, tensor.Uint32, w, s.Const(tensor.Uint32, uint64(8*part*r.d.Size())))
				}
				if r.d == tensor.Bool && d.Size() > 1 {
					shifted = s.wrap(tensor.Uint8, shifted)
				}
				list = append(list, s.fromRaw(r.d, shifted))
			}
		}
	}
	return list
}

func (s *scalars) storeRun(r run, at ir.Value, values []ir.Value) {
	d, n, accesses := r.words()
	perWord := d.Size() / r.d.Size()
	for k := range accesses {
		args := []ir.Value{s.plus(at, k*n*d.Size())}
		for range n {
			word := s.raw(r.d, values[0])
			for part := 1; part < perWord; part++ {
				upper := s.do(lane.Shl, tensor.Uint32, s.raw(r.d, values[part]),
					s.Const(tensor.Uint32, uint64(8*part*r.d.Size())))
				word = s.do(lane.Or, tensor.Uint32, word, upper)
			}
			args, values = append(args, word), values[perWord:]
		}
		s.Do(ir.Store, d, args...)
	}
}
