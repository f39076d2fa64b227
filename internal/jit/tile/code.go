package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// Compile compiles a spec, or returns the existing code of an equal spec. It can generate code for all instruction sets
// on any processor. Execution of the code requires a processor with these features. The error of an invalid spec
// describes what is not supported.
//
// Calls compute tiles. The arguments are the addresses of the operands and the Dynamic values, see [Slot]; calls modify
// only their field Spill. Addresses are not checked. The code reads the terms of the broadcast operand's rows, and
// whole vectors of the vector operand unless the spec is Masked. It writes only lanes that exist. The result may be an
// operand of the epilogue, but it must not share memory with other operands.
func Compile(s *Spec, cpu machine.Features) (*jit.Func, error) {
	if err := s.check(cpu); err != nil {
		return nil, err
	}
	return jit.Lookup(s.key(cpu), func(withListing bool) (jit.Code, error) {
		g := newGen(s, cpu, withListing)
		g.emit()
		return g.Finish()
	})
}
