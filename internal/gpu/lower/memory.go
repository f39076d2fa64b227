package lower

import (
	"github.com/graphrun/graphrun/internal/gpu/ir"
	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// This file generates the loads and stores of operands. A thread accesses a vector of elements of an operand. In this
// package, a number is a real element, or the real or the imaginary part of a complex element. Lists of numbers have
// the real part of each element before its imaginary part.

// run is a sequence of contiguous numbers in memory. For example, four adjacent elements are one run, and four elements
// with gaps are four runs.
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

// runs divides an access into `count` equal runs. There is one run if the elements are contiguous or if there is only
// one element. Otherwise there is a run for each element. It returns the first run, and the distance in bytes between
// the starts of consecutive runs.
func (a access) runs() (first run, count, stride int) {
	first = run{dtype: a.dtype.ToReal(), count: 1, align: a.align}
	if a.dtype.IsComplex() {
		first.count = 2
	}
	switch a.stride {
	case a.dtype.Size(): // all elements are contiguous
		first.count *= a.vector
		return first, 1, 0
	case 0:
		return first, 1, 0
	}
	return first, a.vector, a.stride
}

// load loads the elements of an access and returns their numbers. If the stride is 0, it loads only one element.
// address is the address of the first element.
func (s *scalarBuilder) load(elements access, address ir.Value) []ir.Value {
	first, count, stride := elements.runs()
	var list []ir.Value
	for i := range count {
		list = append(list, s.loadRun(first, s.addBytes(address, i*stride))...)
	}
	return list
}

// store stores the numbers of the elements of an access. If the stride is 0, it stores only the last element. address
// is the address of the first element.
func (s *scalarBuilder) store(elements access, address ir.Value, numbers []ir.Value) {
	first, count, stride := elements.runs()
	if elements.stride == 0 {
		numbers = numbers[len(numbers)-first.count:]
	}
	for i := range count {
		s.storeRun(first, s.addBytes(address, i*stride), numbers[i*first.count:][:first.count])
	}
}

// addBytes returns an address plus a constant number of bytes.
func (s *scalarBuilder) addBytes(address ir.Value, bytes int) ir.Value {
	if bytes == 0 {
		return address
	}
	return s.op(lane.Add, tensor.Uint64, address, s.Const(tensor.Uint64, uint64(bytes)))
}

// words divides a run into instructions (ir.Load or ir.Store). It returns the dtype of a word, the number of words of
// an instruction, and the number of instructions. An instruction accesses at most 16 bytes, and not more bytes than the
// alignment. For example, eight float16 numbers that are aligned to 16 bytes take one instruction with four words of 32
// bits. If the numbers are aligned to 2 bytes, they take eight instructions with a word of 16 bits.
func (r run) words() (wordType tensor.DType, perInstruction, instructions int) {
	// A number of 4 or 8 bytes is a word. Shorter numbers are joined to words of at most 4 bytes. The alignment limits the
	// size of these words.
	total := r.count * r.dtype.Size()
	word := max(r.dtype.Size(), min(4, r.align, total))
	bytes := max(word, min(16, r.align, total)) // accessed by an instruction
	wordType = map[int]tensor.DType{1: tensor.Uint8, 2: tensor.Uint16, 4: tensor.Uint32, 8: tensor.Uint64}[word]
	return wordType, bytes / word, total / bytes
}

// loadRun loads a run and returns its numbers. If a word has several short numbers, they are extracted by shifts.
// fromRawBits converts the lower bits of a word to a number. In storeRun, rawBits converts a number to zero-extended
// bits.
func (s *scalarBuilder) loadRun(memory run, address ir.Value) []ir.Value {
	wordType, perInstruction, instructions := memory.words()
	size := memory.dtype.Size()
	var list []ir.Value
	for i := range instructions {
		for _, word := range s.Load(wordType, perInstruction, s.addBytes(address, i*perInstruction*wordType.Size())) {
			for position := range wordType.Size() / size {
				shifted := word
				if position > 0 {
					shifted = s.op(lane.Shr, tensor.Uint32, word, s.Const(tensor.Uint32, uint64(8*position*size)))
				}
				if memory.dtype == tensor.Bool && wordType.Size() > 1 {
					shifted = s.wrapInteger(tensor.Uint8, shifted) // fromRawBits tests all bits of a bool
				}
				list = append(list, s.fromRawBits(memory.dtype, shifted))
			}
		}
	}
	return list
}

// storeRun stores the numbers of a run. It joins short numbers to words of up to 32 bits if the alignment permits.
func (s *scalarBuilder) storeRun(memory run, address ir.Value, values []ir.Value) {
	wordType, perInstruction, instructions := memory.words()
	perWord := wordType.Size() / memory.dtype.Size()
	for i := range instructions {
		args := []ir.Value{s.addBytes(address, i*perInstruction*wordType.Size())}
		for range perInstruction {
			word := s.rawBits(memory.dtype, values[0])
			for position := 1; position < perWord; position++ {
				upper := s.op(lane.Shl, tensor.Uint32, s.rawBits(memory.dtype, values[position]),
					s.Const(tensor.Uint32, uint64(8*position*memory.dtype.Size())))
				word = s.op(lane.Or, tensor.Uint32, word, upper)
			}
			args, values = append(args, word), values[perWord:]
		}
		s.Emit(ir.Store, wordType, args...)
	}
}

// sharedType returns the dtype of an array in shared memory whose elements represent elements of a real dtype. A bool
// is stored as a uint32. Any other element is stored as the value that represents it in registers (registerDType).
func sharedType(dtype tensor.DType) tensor.DType {
	if dtype == tensor.Bool {
		return tensor.Uint32
	}
	return registerDType(dtype)
}

// toShared returns an element as it is stored in shared memory.
func (s *scalarBuilder) toShared(dtype tensor.DType, element ir.Value) ir.Value {
	if dtype == tensor.Bool {
		return s.rawBits(dtype, element)
	}
	return element
}

// fromShared is the inverse of toShared.
func (s *scalarBuilder) fromShared(dtype tensor.DType, value ir.Value) ir.Value {
	if dtype == tensor.Bool {
		return s.fromRawBits(dtype, value)
	}
	return value
}
