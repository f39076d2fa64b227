package tile

import (
	"fmt"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// Code is the machine code of a [Spec]. It is immutable and may run on any number of goroutines.
type Code struct {
	spec *Spec
	isa  machine.ISA
	fn   *jit.Func
}

// Compile makes the code of a spec, or finds that which somebody has of an equal one. Code can be made for AVX2 and
// AVX-512, whatever this processor is, and run where it has them. An error says what the spec has that cannot be.
func Compile(s *Spec, isa machine.ISA) (*Code, error) {
	if err := s.check(isa); err != nil {
		return nil, err
	}
	fn, err := jit.Lookup(fmt.Sprintf("tile %v %+v", isa, *s), func() (jit.Code, error) {
		code, _, err := assemble(s, isa, false)
		return jit.Code{Bytes: code}, err
	})
	if err != nil {
		return nil, err
	}
	return &Code{spec: s, isa: isa, fn: fn}, nil
}

// Call computes tiles. a says where the operands are and what is Dynamic, see [Slot]; it is left as it is, Spill aside.
// Operands are trusted: of the broadcast operand only the rows' terms are read, of the vector operand whole vectors
// unless the spec says that they are masked, and of the result no lane is written that is not there. The result may
// be the operand of a tail, and else shares no memory with operands. An error says that executable memory could not be
// had, and then nothing was done. A call must take less than 50 us; see package jit.
func (c *Code) Call(a *jit.Args) error { return c.fn.Call(a) }

// Listing returns the code in the syntax of Go's assembler. It is made anew.
func (c *Code) Listing() string {
	_, text, err := assemble(c.spec, c.isa, true)
	if err != nil {
		return err.Error()
	}
	return text
}

func assemble(s *Spec, isa machine.ISA, list bool) ([]byte, string, error) {
	g := newGen(s, isa, list)
	g.emit()
	text := g.Listing()
	code, err := g.Finish()
	return code, text, err
}
