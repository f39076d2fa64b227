package vector

// val is a virtual register, for a vector or a mask; 0 is none.
type val int32

// value describes a val.
type value struct {
	mask      bool    // a mask register
	w         uint8   // width of the vector register in bytes
	invariant bool    // the same for all elements of a row
	constant  bool    // the same for all calls
	rec       *recipe // a single load can recompute it
	acc       *accRef // an accumulator, in registers of its own
}

// accRef is the accumulator of a fold: one register for each copy of the body, until expr.Lanes elements are covered.
type accRef struct {
	fold int
	val  val
	turn int // index of the interleaved copy of the body
}

// recipe describes how a value is loaded.
type recipe struct {
	name string // name of the load instruction; KMOVW for a mask
	mem  memory
	// plain says that an instruction may use the memory as an operand: directly or, if lane is not 0, as one element of
	// lane bytes that is broadcast.
	plain bool
	lane  uint8
}

type memKind uint8

const (
	inOperand  memKind = iota + 1 // element of operand n: outputs, then operands, then accumulators
	inRow                         // operand n, constant along the row
	inConstant                    // data behind the code
	inSlot                        // vector n of the spill area
	inAcc                         // accumulators, operand n, from the first lane of this iteration on
)

// memory is an address.
type memory struct {
	kind memKind
	n    int
	off  int32  // bytes
	step int32  // bytes between copies of the body
	data string // of a constant
	// part selects the tail mask: 0 for elements, 1 and 2 for the halves of pairs.
	part uint8
	lane uint8 // bytes per bit of the tail mask
}

// arg is a source of an instruction: a value or, if v is 0, an immediate.
type arg struct {
	v   val
	w   uint8 // width at which it is read; 0 for its own
	imm int64
}

// inst is a machine instruction. Sources are in the order of Go's assembler.
type inst struct {
	name string
	src  []arg
	dst  val
	tied val   // dst's register holds this value before the instruction
	mask val   // elements that are written
	zero bool  // other elements become zero instead of being kept
	rm   int8  // index of the source that may be memory, or -1
	comm bool  // sources rm and rm+1 may be exchanged
	lane uint8 // size of the element that memory may broadcast; 0 if it may not
	// fma is the suffix of a fused multiply-add src[0]*src[1] + src[2]; name is the part before the digits.
	fma   string
	store *memory // destination of src[0], or of src[1] after an immediate; dst is 0 then
	nt    string  // name of the non-temporal store, if there is one
	table string  // contents of a table
}
