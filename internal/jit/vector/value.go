package vector

// val is the number of a virtual register for a vector or a mask. 0 means none.
type val int32

// value describes a virtual register: its kind, and the ways to restore its contents.
type value struct {
	mask      bool    // a mask register
	bytes     uint8   // size of the vector register in bytes
	invariant bool    // the same for all elements of a row
	constant  bool    // the same for all calls
	reload    *reload // the single load that computes the value; nil if the value needs other instructions
	acc       *accRef // the accumulator, which has permanent registers; nil for other values
}

// accRef is the accumulator of a fold. It has a register in each set of accumulator registers. These registers together
// have expr.Lanes elements.
type accRef struct {
	index     int // index in gen.accs
	val       val
	iteration int // index of the iteration among the interleaved iterations
}

// reload is a load that computes a value, or that restores a spilled value.
type reload struct {
	name     string // name of the load instruction; KMOVW for a mask
	mem      memory
	foldable bool  // an instruction may use the memory as an operand
	lane     uint8 // size in bytes of the element that a memory operand broadcasts; 0 if it is a whole vector
}

type memKind uint8

const (
	inOperand  memKind = iota + 1 // elements of an output or operand that advances along the row
	inRow                         // one element, which does not advance along the row
	inConstant                    // data that is stored after the code
	inSlot                        // a vector of the spill area
	inAcc                         // accumulators, from the first lane of the iteration on
)

// memory is a memory operand. Its address may depend on the iteration.
type memory struct {
	kind   memKind
	index  int    // for inSlot, the number of the vector; otherwise the number of the pointer (see frame)
	offset int32  // offset in bytes
	step   int32  // bytes between iterations
	data   string // contents of a constant
	part   uint8  // selects the tail mask: 0 for elements, 1 and 2 for the halves of complex elements
	lane   uint8  // number of bytes for each bit of the tail mask
}

// arg is a source of an instruction: a value or, if v is 0, an immediate.
type arg struct {
	v     val
	bytes uint8 // number of bytes of the register that are read; 0 means all
	imm   int64
}

// inst is a machine instruction. Sources are in the order of Go's assembler.
type inst struct {
	name        string
	src         []arg
	dst         val
	tied        val   // the value in the register of dst before the instruction, or 0
	mask        val   // the mask of the elements that are written, or 0
	zeroing     bool  // elements outside the mask become 0; otherwise they keep their values
	memSource   int8  // index of the source that may be a memory operand, or -1
	commutative bool  // commutative: sources rm and rm+1 may be exchanged
	lane        uint8 // size in bytes of an element that a memory operand may broadcast, or 0
	// fmaSuffix is set for a fused multiply-add src[0]*src[1] + src[2]. The mnemonic is name, then digits such as 213 that
	// the allocator chooses, then fma.
	fmaSuffix   string
	store       *memory // for a store: its destination; dst is then 0
	nonTemporal string  // name of the non-temporal form of a store, or empty
	table       string  // for tableRows: contents of the table
}
