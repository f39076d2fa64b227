package vector

// val is a value in a vector register or a mask register; 0 is none.
type val int32

// value is what is known of a val.
type value struct {
	mask  bool    // it lives in a mask register
	w     uint8   // bytes of the vector register
	inv   bool    // it is the same for all elements of a row
	konst bool    // it is the same for all calls
	rec   *recipe // it is made by one load, whenever it is wanted
	acc   *accRef // it is an accumulator, in registers of its own
}

// accRef is the accumulator of a fold: one register for each copy of the body, until Lanes are reached.
type accRef struct {
	fold int
	val  val
	turn int // of those that are interleaved
}

// recipe is how a value is loaded.
type recipe struct {
	name string // of the instruction that loads it; a mask by KMOVW
	mem  memory
	// plain says that an instruction may take the memory as an operand: as it lies or, if lane is not 0, as one element
	// of so many bytes for all lanes.
	plain bool
	lane  uint8
}

type memKind uint8

const (
	inOperand  memKind = iota + 1 // element of operand n: outputs, then operands, then accumulators
	inRow                         // operand n where it stands for the row
	inConstant                    // data behind the code
	inSlot                        // vector n of the spill area
	inAcc                         // accumulators, operand n, from the lane of this turn on
)

// memory is an address.
type memory struct {
	kind memKind
	n    int
	off  int32  // bytes
	step int32  // bytes from a copy of the body to the next
	data string // of a constant
	// part says which tail mask goes with it: 0 that of elements, 1 and 2 those of the halves of pairs.
	part uint8
	lane uint8 // bytes that a bit of the tail mask stands for
}

// arg is a source of an instruction: a value or, if that is 0, a constant in it.
type arg struct {
	v   val
	w   uint8 // width at which it is read, 0 for its own
	imm int64
}

// inst is a machine instruction. Sources are in the order of Go's assembler.
type inst struct {
	name string
	src  []arg
	dst  val
	tied val   // dst's register holds this beforehand
	mask val   // elements that are written
	zero bool  // others become zero instead of staying
	rm   int8  // which source may be memory, or -1
	comm bool  // sources rm and rm+1 may change places
	lane uint8 // bytes of the element that memory may have for all lanes; 0 if it may not
	// fma is the suffix of a fused multiply-add of src[0]*src[1] + src[2]; name is what comes before the numbers.
	fma   string
	store *memory // where src[0], or src[1] after a constant, goes; dst is 0 then
	nt    string  // the name that stores past the caches, where there is one
	table string  // the data of a table
}
