package target

import "github.com/graphrun/graphrun/internal/jit"

// ArgsPtr returns word k of [jit.Args].Ptr.
func ArgsPtr(k int) ArgsWord { return ArgsWord(jit.OffsetPtr + int32(8*k)) }

// ArgsRow returns word k of [jit.Args].Row.
func ArgsRow(k int) ArgsWord { return ArgsWord(jit.OffsetRow + int32(8*k)) }

// ArgsStep returns word k of [jit.Args].Step.
func ArgsStep(k int) ArgsWord { return ArgsWord(jit.OffsetStep + int32(8*k)) }

// ArgsSpill returns word k of [jit.Args].Spill.
func ArgsSpill(k int) ArgsWord { return ArgsWord(jit.OffsetSpill + int32(8*k)) }

// LoadAddress writes the load of the address Ptr[k] + Row[k] of operand k.
func LoadAddress(w Writer, k int, to GReg) {
	w.Move(ArgsPtr(k), to)
	w.Add(ArgsRow(k), to)
}
