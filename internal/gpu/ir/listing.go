package ir

import (
	"fmt"
	"strings"

	"github.com/graphrun/graphrun/internal/jit/lane"
	"github.com/graphrun/graphrun/tensor"
)

// String lists the kernel, one instruction per line.
func (k *Kernel) String() string {
	var b strings.Builder
	depth := 0
	for v, i := range k.Insts {
		if i.Op == Else || i.Op == End {
			depth--
		}
		b.WriteString(strings.Repeat("  ", max(depth, 0)))
		if i.Op.HasResult() {
			fmt.Fprintf(&b, "v%d = ", v)
		}
		b.WriteString(i.Op.String())
		if i.DType != tensor.Invalid {
			fmt.Fprintf(&b, ".%v", i.DType)
		}
		switch i.Op {
		case Op(lane.Const), Param, Load, Part, LoadShared, StoreShared:
			fmt.Fprintf(&b, " %#x", i.Imm)
		}
		for _, u := range i.Uses() {
			fmt.Fprintf(&b, " v%d", u)
		}
		b.WriteByte('\n')
		if i.Op == Loop || i.Op == If || i.Op == Else {
			depth++
		}
	}
	return b.String()
}
