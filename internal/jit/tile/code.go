package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// Compile makes the code of a spec, or finds that which somebody has of an equal one. Code can be made for AVX2 and
// AVX-512, whatever this processor is, and run where it has them. An error says what the spec has that cannot be.
//
// Calls compute tiles. Their arguments say where the operands are and what is Dynamic, see [Slot]; they are left as
// they are, Spill aside. Operands are trusted: of the broadcast operand only the rows' terms are read, of the vector
// operand whole vectors unless the spec says that they are masked, and of the result no lane is written that is not
// there. The result may be the operand of a tail, and else shares no memory with operands.
func Compile(s *Spec, isa machine.ISA) (*jit.Func, error) {
	if err := s.check(isa); err != nil {
		return nil, err
	}
	return jit.Lookup(s.key(isa), func(list bool) (jit.Code, error) {
		g := newGen(s, isa, list)
		g.emit()
		return jit.Finish(&g.Assembler)
	})
}
