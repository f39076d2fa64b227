package tile

import (
	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// Compile compiles a spec, or returns the existing code of an equal spec. It generates code for any cpu; only a
// processor with these features can execute it. The error of an invalid spec names the unsupported part.
//
// A call computes one or more tiles. Its arguments are the addresses of the operands and the Dynamic values, see
// [Slot]; the call modifies only the field Spill of [jit.Args]. Addresses are not checked. The code reads the terms of
// the broadcast operand's rows, and whole vectors of the vector operand unless the spec is Masked. It writes only lanes
// that exist. The result may be an operand of the epilogue, but it must not share memory with other operands.
func Compile(spec *Spec, cpu machine.Features) (*jit.Func, error) {
	if err := spec.check(cpu); err != nil {
		return nil, err
	}
	return jit.Lookup(spec.key(cpu), func(withListing bool) (jit.Code, error) {
		g := newGen(spec, cpu, withListing)
		g.emit()
		return g.Finish()
	})
}
