package lane

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/tensor"
)

// String returns the dtype, or the width of a mask in bits: "mask32".
func (t Type) String() string {
	if t.D == tensor.Bool {
		return fmt.Sprintf("mask%d", 8*t.Mask)
	}
	return t.D.String()
}

// String lists the block, one instruction per line. Pointer k is pk, value k is vk.
func (b *Block) String() string {
	var s strings.Builder
	for v, i := range b.Insts {
		if i.Op != Store {
			fmt.Fprintf(&s, "v%d = ", v)
		}
		fmt.Fprintf(&s, "%v.%v", i.Op, i.Type)
		switch i.Op {
		case Const:
			fmt.Fprintf(&s, " %#x", i.Imm)
		case Load, Store:
			fmt.Fprintf(&s, " p%d", i.Ptr)
			if i.Op == Load && b.Ptrs[i.Ptr].D.IsComplex() {
				s.WriteString([]string{".re", ".im"}[i.Imm&1])
			}
		}
		for _, u := range i.Uses() {
			fmt.Fprintf(&s, " v%d", u)
		}
		if b.Uniform(Value(v)) {
			s.WriteString(" (uniform)")
		}
		s.WriteByte('\n')
	}
	return s.String()
}

// String lists the block and the folds.
func (l *Loop) String() string {
	s := l.Block.String()
	for _, f := range l.Folds {
		into := "accumulators"
		if l.Totals {
			into = "total"
		}
		s += fmt.Sprintf("%s p%d: %v v%d\n", into, f.Ptr, f.Op, f.V)
	}
	return s
}
