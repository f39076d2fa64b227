package alloc

// RegisterFile describes the registers and slots that a list of instructions may use. A permanent register or slot
// holds its value before, during and after the list. But if the list itself computes these values (Policy.OncePerRow),
// they are in the permanent registers and slots only after the list.
type RegisterFile struct {
	Pool          [numClasses]uint32 // by class: bit set of the registers that may be assigned
	Permanent     []int8             // by Virt: its permanent register, or -1
	PermanentSlot []int16            // by Virt: its permanent slot, or -1
	ReservedSlots int                // number of slots that are in use before the list
	FoldLoads     bool               // instructions may have memory operands
}

// Policy describes how a list is executed, and bounds its allocation.
type Policy struct {
	OncePerRow bool    // the list computes row constants, and saves them to their permanent slots
	Masked     bool    // loads along the row need a mask (at the end of a row), so that they cannot be memory operands
	Preload    []Virt  // row constants to load before the list, if a single load computes them
	CostLimit  float64 // allocation stops when the cost reaches this limit; 0 means none

	// EvictReloadableFirst keeps registers for values that no single load can restore. Other values are evicted first.
	// They get a register only if one is free; otherwise they are memory operands.
	EvictReloadableFirst bool
}

// Result is a list of allocated instructions.
type Result struct {
	Insts            []Allocated
	InstructionCount int     // number of instructions; a pseudo-instruction counts as Inst.InstructionCount instructions
	Slots            int     // number of slots in use, including RegisterFile.ReservedSlots
	Cost             float64 // estimated number of instructions that spills and reloads add
	Err              error   // nil, or the reason for which the list cannot be allocated

	state *allocator // memory for reuse
}

// Kind is a kind of allocated instruction.
type Kind uint8

// Kinds of allocated instructions. Load, Save and Copy have two Args: the source and the destination.
const (
	Plain Kind = iota // an instruction of the list
	Load              // a load from memory to a register (see Reload); Name is empty if the memory is a slot
	Save              // a store of a register to a slot
	Copy              // a copy between registers of a class
)

// Allocated is an instruction on real registers. In Args, the sources come first, in the order of [Inst.Src] or
// [Form.Order], then temporary registers, the mask, and the destination.
type Allocated struct {
	Kind        Kind
	Name        string
	NonTemporal string // name of the non-temporal form, or empty
	Args        []Operand
	From        int32 // index of the instruction in the list; -1 for a Load, Save or Copy that no instruction requires
}

// OperandKind is a kind of operand.
type OperandKind uint8

// Kinds of operands.
const (
	Register    OperandKind = iota // register Reg of Class
	Accumulator                    // a register of the accumulator Acc; interleaved iterations use different ones
	Memory                         // Mem
	Element                        // one element at Mem, which the instruction broadcasts to all lanes
	Immediate                      // Imm
)

// Operand is an operand of an allocated instruction.
type Operand struct {
	Kind        OperandKind
	Class       Class // of a Register or Accumulator
	Reg         int8
	Bytes       uint8 // number of bytes of the register that are used
	ZeroMasking bool  // for a mask: elements outside the mask become 0
	Imm         int64 // of an Immediate
	Mem         *Mem  // of Memory or an Element
	Acc         *Acc  // of an Accumulator
}
