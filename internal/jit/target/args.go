package target

import "github.com/graphrun/graphrun/internal/jit"

// ArgsPtr returns the memory operand for word k of [jit.Args].Ptr. An ArgsWord is a byte offset in Args.
func ArgsPtr(k int) ArgsWord { return ArgsWord(jit.OffsetPtr + int32(8*k)) }

// ArgsRow is ArgsPtr for [jit.Args].Row.
func ArgsRow(k int) ArgsWord { return ArgsWord(jit.OffsetRow + int32(8*k)) }

// ArgsStep is ArgsPtr for [jit.Args].Step.
func ArgsStep(k int) ArgsWord { return ArgsWord(jit.OffsetStep + int32(8*k)) }

// ArgsSpill is ArgsPtr for [jit.Args].Spill.
func ArgsSpill(k int) ArgsWord { return ArgsWord(jit.OffsetSpill + int32(8*k)) }

// LoadAddress writes the load of the address Ptr[k] + Row[k] of operand k.
func LoadAddress(w Writer, k int, to GReg) {
	w.Move(ArgsPtr(k), to)
	w.Add(ArgsRow(k), to)
}
