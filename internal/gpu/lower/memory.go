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

// access describes the elements of an operand that a thread accesses at once.
type access struct {
	d      tensor.DType
	stride int // bytes from one element to the next; 0 for one element
	vector int // number of elements
	align  int // a power of 2 that divides the address of the first element
}

// runs returns the sequences of an access, and the bytes between them.
func (a access) runs() (r run, count, stride int) {
	r = run{d: a.d.ToReal(), n: 1, align: a.align}
	if a.d.IsComplex() {
		r.n = 2
	}
	switch a.stride {
	case a.d.Size():
		r.n *= a.vector
		return r, 1, 0
	case 0:
		return r, 1, 0
	}
	return r, a.vector, a.stride
}

// load returns the numbers of all elements, or of one element if the stride is 0.
func (s *scalars) load(a access, at ir.Value) []ir.Value {
	r, count, stride := a.runs()
	var list []ir.Value
	for k := range count {
		list = append(list, s.loadRun(r, s.plus(at, k*stride))...)
	}
	return list
}

func (s *scalars) store(a access, at ir.Value, values []ir.Value) {
	r, count, stride := a.runs()
	if a.stride == 0 {
		values = values[len(values)-r.n:] // all elements are stored at one address
	}
	for k := range count {
		s.storeRun(r, s.plus(at, k*stride), values[k*r.n:][:r.n])
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
