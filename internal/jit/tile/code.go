package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// Compile compiles a spec, or returns the existing code of an equal one. It can generate code for AVX2 and AVX-512 on
// any processor; running it requires a processor with those features. The error of an invalid spec describes what
// is not supported.
//
// Calls compute tiles. The arguments are the addresses of the operands and the Dynamic values, see [Slot]; calls modify
// only their field Spill. Addresses are not checked. The code reads the terms of the broadcast operand's rows, and
// whole vectors of the vector operand unless the spec is Masked. It writes only lanes that exist. The result may be an
// operand of the epilogue; apart from that, it must not share memory with operands.
func Compile(s *Spec, cpu machine.Features) (*jit.Func, error) {
	if err := s.check(cpu); err != nil {
		return nil, err
	}
	return jit.Lookup(s.key(cpu), func(list bool) (jit.Code, error) {
		g := newGen(s, cpu, list)
		g.emit()
		return jit.Finish(&g.Assembler)
	})
}
