package tile

import (
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/machine"
)

// registers returns how many vector registers an instruction set has, and their bytes.
func registers(isa machine.ISA) (n, bytes int) {
	if isa == machine.AVX512 {
		return 32, 64
	}
	return 16, 32
}

// check says what is wrong with a spec.
func (s *Spec) check(isa machine.ISA) error {
	n, bytes := registers(isa)
	switch {
	case isa < machine.AVX2:
		return fmt.Errorf("tile: no machine code for %v", isa)
	case s.Size != 4 && s.Size != 8:
		return fmt.Errorf("tile: elements of %d bytes", s.Size)
	case s.Unit && isa != machine.AVX512:
		return fmt.Errorf("tile: no matrix unit for %v", isa)
	case s.Rows < 1 || s.Vectors < 1 || !s.Unit && s.needs(isa) > n:
		return fmt.Errorf("tile: %d rows of %d vectors in %d registers", s.Rows, s.Vectors, n)
	case s.Lanes != Dynamic && (s.Lanes < 0 || s.Lanes > bytes/s.Size):
		return fmt.Errorf("tile: %d lanes of %d", s.Lanes, bytes/s.Size)
	case s.In != nil && len(s.In) != s.Rows || s.Out != nil && len(s.Out) != s.Rows:
		return fmt.Errorf("tile: %d and %d places of %d rows", len(s.In), len(s.Out), s.Rows)
	case s.In == nil && s.Rows > DynamicRows:
		return fmt.Errorf("tile: %d rows at places that a call tells", s.Rows)
	case s.Start > FromResult:
		return fmt.Errorf("tile: there is no start %d", s.Start)
	case s.Bytes && s.Size != 4:
		return fmt.Errorf("tile: bytes of elements of %d for %v", s.Size, isa)
	case s.Words && (s.Size != 4 || s.Bytes):
		return fmt.Errorf("tile: words of elements of %d", s.Size)
	case s.Levels > Signed,
		s.Levels != Sums && (!s.integers() || s.Out == nil || s.Start == FromResult || len(s.Tail) > 0):
		return fmt.Errorf("tile: levels %d of sums that start with %d", s.Levels, s.Start)
	case s.Unroll < 0 || s.Ahead < 0:
		return fmt.Errorf("tile: %d terms a turn, %d lines ahead", s.Unroll, s.Ahead)
	case len(s.Loops) > MaxLoops:
		return fmt.Errorf("tile: %d loops", len(s.Loops))
	case s.blocks() && (s.In == nil || s.integers()):
		return fmt.Errorf("tile: blocks of terms of rows at places that a call tells, or of integers")
	}
	if err := s.checkFetch(); err != nil {
		return err
	}
	for i, l := range s.Loops {
		if l.In == Dynamic || l.Vec == Dynamic || l.Out != 0 || l.Turns < 1 && l.Turns != Dynamic || l.Block < 0 {
			return fmt.Errorf("tile: loop %d is %+v", i, l)
		}
	}
	for i, t := range s.Tail {
		if t.Op > Scale || t.Op == AddResult && s.integers() || t.Operand < 0 || t.Operand >= jit.MaxOperands-Tails {
			return fmt.Errorf("tile: operation %d at the end is %+v", i, t)
		}
	}
	if err := s.checkRuns(); err != nil {
		return err
	}
	if err := s.checkDistances(); err != nil || !s.Unit {
		return err
	}
	return s.checkUnit()
}

func (s *Spec) checkFetch() error {
	if s.Keep != 0 && (len(s.Runs) != 1 || len(s.Loops) > 0) {
		return fmt.Errorf("tile: what is read in %d runs and %d loops is kept", len(s.Runs), len(s.Loops))
	}
	told := len(s.Runs) == 1 && s.Runs[0].Terms == Dynamic && len(s.Loops) == 0 && s.Unroll == 0
	most := maxFetches
	if s.Ahead > 0 {
		most-- // for want of registers
	}
	if len(s.Fetch) > most || len(s.Fetch) > 0 && !told {
		return fmt.Errorf("tile: %d rows are asked for besides, of %d runs", len(s.Fetch), len(s.Runs))
	}
	for i, f := range s.Fetch {
		if f.Lines < 1 || f.Every < FewTerms || f.Every&(f.Every-1) != 0 {
			return fmt.Errorf("tile: row %d that is asked for besides is %+v", i, f)
		}
	}
	return nil
}

func (s *Spec) checkRuns() error {
	for i, r := range s.Runs {
		dynamic := r.Terms == Dynamic || r.InStep == Dynamic || r.VecStep == Dynamic
		switch {
		case dynamic && len(s.Runs) > 1:
			return fmt.Errorf("tile: run %d of %d is told by calls", i, len(s.Runs))
		case r.Terms < 1 && r.Terms != Dynamic || r.In == Dynamic || r.Vec == Dynamic || r.Rows>>s.Rows != 0,
			r.Block < 0, r.Block > 0 && r.Terms == Dynamic:
			return fmt.Errorf("tile: run %d is %+v", i, r)
		}
	}
	return nil
}

// needs returns how many registers a tile takes at least: sums, vectors, an element that is broadcast, where
// multiplications do not take it from memory, and a mask, where that is no register of its own.
func (s *Spec) needs(isa machine.ISA) int {
	n := s.Rows*s.Vectors + s.Vectors
	if s.Levels != Sums {
		n = max(n, s.Rows*s.Vectors+levelRegs-1) // and one that is broadcast
	}
	switch {
	case isa == machine.AVX512 && !s.integers():
		return max(n, s.Rows*s.Vectors+1)
	case s.Words && s.Vectors > 1: // products are there before they are added
		n++
	}
	n++
	if s.masksTerms(isa) {
		n++
	}
	return n
}

// blocks reports whether terms are cut into blocks.
func (s *Spec) blocks() bool {
	return slices.ContainsFunc(s.Loops, func(l Loop) bool { return l.Block > 0 }) ||
		slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Block > 0 })
}

// integers reports whether sums are int32.
func (s *Spec) integers() bool { return s.Bytes || s.Words }

// partial reports whether the last vector may have lanes that are not there.
func (s *Spec) partial(isa machine.ISA) bool {
	_, bytes := registers(isa)
	return s.Lanes != 0 && s.Lanes != bytes/s.Size
}

// masksTerms reports whether a mask is a vector register that is needed among the terms.
func (s *Spec) masksTerms(isa machine.ISA) bool {
	return isa != machine.AVX512 && s.Masked && s.partial(isa)
}
