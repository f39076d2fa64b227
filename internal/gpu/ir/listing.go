package ir

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/lane"
	"github.com/graphrun/graphrun/tensor"
)

// String lists the kernel, one instruction per line. A line has the value, the operation with the dtype, the immediate
// number in hexadecimal if the operation has one, and the operands. Instructions of a block are indented.
func (k *Kernel) String() string {
	var text strings.Builder
	depth := 0
	for value, inst := range k.Insts {
		if inst.Op == Else || inst.Op == End {
			depth--
		}
		text.WriteString(strings.Repeat("  ", max(depth, 0)))
		if inst.Op.HasResult() {
			fmt.Fprintf(&text, "v%d = ", value)
		}
		text.WriteString(inst.Op.String())
		if inst.DType != tensor.Invalid {
			fmt.Fprintf(&text, ".%v", inst.DType)
		}
		switch inst.Op {
		case Op(lane.Const), Param, Load, Extract, LoadShared, StoreShared:
			fmt.Fprintf(&text, " %#x", inst.Imm)
		}
		for _, operand := range inst.Operands() {
			fmt.Fprintf(&text, " v%d", operand)
		}
		text.WriteByte('\n')
		if inst.Op == Loop || inst.Op == If || inst.Op == Else {
			depth++
		}
	}
	return text.String()
}
