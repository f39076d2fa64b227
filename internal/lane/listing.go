package lane

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// String returns the dtype, or the width of a mask in bits: "mask32".
func (t Type) String() string {
	if t.DType == tensor.Bool {
		return fmt.Sprintf("mask%d", 8*t.Mask)
	}
	return t.DType.String()
}

// String lists the block, one instruction per line. Pointer 2 is p2, and value 3 is v3.
func (b *Block) String() string {
	var text strings.Builder
	for v, inst := range b.Insts {
		if inst.Op != Store {
			fmt.Fprintf(&text, "v%d = ", v)
		}
		fmt.Fprintf(&text, "%v.%v", inst.Op, inst.Type)
		switch inst.Op {
		case Const:
			fmt.Fprintf(&text, " %#x", inst.Imm)
		case Load, Store:
			fmt.Fprintf(&text, " p%d", inst.Ptr)
			if inst.Op == Load && b.Ptrs[inst.Ptr].DType.IsComplex() {
				text.WriteString([]string{".re", ".im"}[inst.Imm&1])
			}
		}
		for _, operand := range inst.Operands() {
			fmt.Fprintf(&text, " v%d", operand)
		}
		if b.Uniform(Value(v)) {
			text.WriteString(" (uniform)")
		}
		text.WriteByte('\n')
	}
	return text.String()
}

// String lists the block and the folds.
func (l *Loop) String() string {
	text := l.Block.String()
	for _, fold := range l.Folds {
		destination := "accumulators"
		if l.CombinesLanes {
			destination = "total"
		}
		text += fmt.Sprintf("%s p%d: %v v%d\n", destination, fold.Ptr, fold.Op, fold.Value)
	}
	return text
}
