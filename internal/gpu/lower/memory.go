package lower

import (
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// run is a sequence of contiguous numbers in memory: elements, or the parts of complex elements.
type run struct {
	dtype tensor.DType // a real dtype
	count int          // a power of 2
	align int          // a power of 2 that divides the address of the first number
}

// access describes the elements of an operand that a thread accesses at once.
type access struct {
	dtype  tensor.DType
	stride int // bytes from one element to the next; 0 for one element
	vector int // number of elements
	align  int // a power of 2 that divides the address of the first element
}

// oneElement returns the access to a single element.
func oneElement(dtype tensor.DType) access {
	return access{dtype: dtype, vector: 1, align: dtype.ToReal().Size()}
}

// runs returns the sequences of an access, and the bytes between them.
func (a access) runs() (sequence run, count, stride int) {
	sequence = run{dtype: a.dtype.ToReal(), count: 1, align: a.align}
	if a.dtype.IsComplex() {
		sequence.count = 2
	}
	switch a.stride {
	case a.dtype.Size():
		sequence.count *= a.vector
		return sequence, 1, 0
	case 0:
		return sequence, 1, 0
	}
	return sequence, a.vector, a.stride
}

// load returns the numbers of all elements, or of one element if the stride is 0.
func (s *scalars) load(shape access, address ir.Value) []ir.Value {
	sequence, count, stride := shape.runs()
	var list []ir.Value
	for k := range count {
		list = append(list, s.loadRun(sequence, s.plus(address, k*stride))...)
	}
	return list
}

// store stores the numbers of all elements, or those of the last element if the stride is 0.
func (s *scalars) store(shape access, address ir.Value, values []ir.Value) {
	sequence, count, stride := shape.runs()
	if shape.stride == 0 {
		values = values[len(values)-sequence.count:] // all elements are stored at one address
	}
	for k := range count {
		s.storeRun(sequence, s.plus(address, k*stride), values[k*sequence.count:][:sequence.count])
	}
}

// plus returns an address plus a constant number of bytes.
func (s *scalars) plus(address ir.Value, bytes int) ir.Value {
	if bytes == 0 {
		return address
	}
	return s.do(lane.Add, tensor.Uint64, address, s.Const(tensor.Uint64, uint64(bytes)))
}

// words returns how a sequence is accessed: the dtype of a word, the number of words of an access, and the number of
// accesses. An access has at most 16 bytes and not more than the alignment.
func (r run) words() (d tensor.DType, n, accesses int) {
	// A word is a number of 4 or 8 bytes, or as many shorter numbers as the alignment permits, up to 4 bytes.
	total := r.count * r.dtype.Size()
	bytes := min(16, r.align, total)
	word := max(r.dtype.Size(), min(bytes, 4))
	d = map[int]tensor.DType{1: tensor.Uint8, 2: tensor.Uint16, 4: tensor.Uint32, 8: tensor.Uint64}[word]
	return d, max(bytes/word, 1), total / max(bytes, word)
}

// loadRun returns the numbers of a sequence. It loads words of up to 32 bits, and takes shorter numbers out of them.
func (s *scalars) loadRun(sequence run, address ir.Value) []ir.Value {
	word, count, accesses := sequence.words()
	var list []ir.Value
	for k := range accesses {
		for _, loaded := range s.Load(word, count, s.plus(address, k*count*word.Size())) {
			for part := range word.Size() / sequence.dtype.Size() {
				shifted := loaded
				if part > 0 {
					shifted = s.do(lane.Shr, tensor.Uint32, loaded,
						s.Const(tensor.Uint32, uint64(8*part*sequence.dtype.Size())))
				}
				if sequence.dtype == tensor.Bool && word.Size() > 1 {
					shifted = s.wrap(tensor.Uint8, shifted)
				}
				list = append(list, s.fromRaw(sequence.dtype, shifted))
			}
		}
	}
	return list
}

// storeRun stores the numbers of a sequence. It joins short numbers to words of 32 bits if the alignment permits it.
func (s *scalars) storeRun(sequence run, address ir.Value, values []ir.Value) {
	wordType, count, accesses := sequence.words()
	perWord := wordType.Size() / sequence.dtype.Size()
	for k := range accesses {
		args := []ir.Value{s.plus(address, k*count*wordType.Size())}
		for range count {
			word := s.raw(sequence.dtype, values[0])
			for part := 1; part < perWord; part++ {
				upper := s.do(lane.Shl, tensor.Uint32, s.raw(sequence.dtype, values[part]),
					s.Const(tensor.Uint32, uint64(8*part*sequence.dtype.Size())))
				word = s.do(lane.Or, tensor.Uint32, word, upper)
			}
			args, values = append(args, word), values[perWord:]
		}
		s.Do(ir.Store, wordType, args...)
	}
}
