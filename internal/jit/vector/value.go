package vector

// val is the number of a virtual register for a vector or a mask. 0 means none.
type val int32

// value describes a virtual register.
type value struct {
	mask      bool    // a mask register
	bytes     uint8   // size of the vector register in bytes
	invariant bool    // the same for all elements of a row
	constant  bool    // the same for all calls
	rec       *recipe // the single load that computes the value, or nil
	acc       *accRef // for an accumulator; else nil. Accumulators have permanent registers.
}

// accRef is an accumulator of a fold. It has a register in each set of accumulator registers, and these registers
// together have expr.Lanes elements.
type accRef struct {
	fold int // index in gen.accs
	val  val
	copy int // index of the iteration among the interleaved iterations
}

// recipe is the load that computes a value.
type recipe struct {
	name string // name of the load instruction; KMOVW for a mask
	mem  memory
	// plain is set if an instruction may use the memory as an operand. If lane is not 0, the operand is an element of
	// lane bytes, which is broadcast.
	plain bool
	lane  uint8
}

type memKind uint8

const (
	inOperand  memKind = iota + 1 // elements at pointer n; see frame for the order of pointers
	inRow                         // the element at pointer n, which does not advance along the row
	inConstant                    // data that is stored after the code
	inSlot                        // vector n of the spill area
	inAcc                         // accumulators at pointer n, from the first lane of the iteration on
)

// memory is a memory operand, whose address may depend on the iteration.
type memory struct {
	kind   memKind
	index  int
	offset int32  // offset in bytes
	step   int32  // bytes between iterations
	data   string // contents of a constant
	// part selects the tail mask: 0 for elements, 1 and 2 for the halves of complex elements.
	part uint8
	lane uint8 // number of bytes for each bit of the tail mask
}

// arg is a source of an instruction: a value or, if v is 0, an immediate.
type arg struct {
	v     val
	bytes uint8 // number of bytes of the register that are read; 0 means all
	imm   int64
}

// inst is a machine instruction. Sources are in the order of Go's assembler.
type inst struct {
	name string
	src  []arg
	dst  val
	tied val   // the value in the register of dst before the instruction, or 0
	mask val   // the mask of the elements that are written, or 0
	zero bool  // elements outside the mask become 0; otherwise they keep their values
	rm   int8  // index of the source that may be a memory operand, or -1
	comm bool  // commutative: sources rm and rm+1 may be exchanged
	lane uint8 // size in bytes of an element that a memory operand may broadcast, or 0
	// fma is the suffix of the name of a fused multiply-add src[0]*src[1] + src[2]. Then name is the part before the
	// digits, such as 213, that the allocator chooses.
	fma   string
	store *memory // for a store: its destination; dst is then 0
	nt    string  // name of the non-temporal form of a store, or empty
	table string  // for tableRows: contents of the table
}
