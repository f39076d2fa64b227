package tile

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/graphrun/graphrun/internal/jit"
	"github.com/graphrun/graphrun/internal/jit/target"
	"github.com/graphrun/graphrun/internal/machine"
)

// Supports reports whether there is code for floats.
func Supports(cpu machine.Features) bool { return cpu.Has(machine.AVX2) || cpu.Has(machine.NEON) }

// SupportsIntegers reports whether there is code for Bytes or Words: for Bytes if the processor has their dot product,
// else for Words on amd64. arm64 has no code for Words, because it would not be faster than that for float32.
func SupportsIntegers(cpu machine.Features) bool { return cpu.Has(machine.AVX2) || cpu.DotsBytes() }

// ReadsSigned reports whether tiles of Bytes read the broadcast operand as signed bytes. signed says whether the dtype
// of the operand is signed. If the result differs from signed, the caller must flip the sign bits of the operand, which
// adds or subtracts 128. VPDPBUSD multiplies unsigned by signed bytes, SDOT signed bytes, and SUDOT (I8MM) signed by
// unsigned bytes.
func ReadsSigned(cpu machine.Features, signed bool) bool {
	return cpu.Has(machine.NEON) && (signed || !cpu.Has(machine.MatrixBytes))
}

// Registers returns the number of vector registers of a tile, and their size in bytes.
func Registers(cpu machine.Features) (count, bytes int) { return target.Vectors(cpu) }

// ElementsPerLoad returns the maximum number of elements that one load reads from the broadcast operand: consecutive
// terms of one row, if there is a free register for each row, or one term of several rows that are adjacent in memory.
func ElementsPerLoad(cpu machine.Features, size int) int { return target.ElementsPerVector(cpu, size) }

// DynamicLanes reports whether the number of lanes of the last vector may be [Dynamic].
func DynamicLanes(cpu machine.Features) bool { return cpu.Has(machine.AVX2) }

// check returns an error if a spec is invalid.
func (s *Spec) check(cpu machine.Features) error {
	n, bytes := target.Vectors(cpu)
	switch {
	case !Supports(cpu):
		return fmt.Errorf("tile: no machine code for %v", cpu)
	case s.Lanes == Dynamic && !DynamicLanes(cpu):
		return fmt.Errorf("tile: the number of lanes must be constant for %v", cpu)
	case s.Size != 4 && s.Size != 8:
		return fmt.Errorf("tile: elements of %d bytes, want 4 or 8", s.Size)
	case s.MatrixUnit && !cpu.Has(machine.Vector512):
		return fmt.Errorf("tile: no matrix unit for %v", cpu)
	case s.Rows < 1 || s.Vectors < 1 || !s.MatrixUnit && s.minRegisters(cpu) > n:
		return fmt.Errorf("tile: %d rows of %d vectors do not fit into %d registers", s.Rows, s.Vectors, n)
	case s.Lanes != Dynamic && (s.Lanes < 0 || s.Lanes > bytes/s.Size):
		return fmt.Errorf("tile: %d lanes in the last vector, want 0 to %d", s.Lanes, bytes/s.Size)
	case s.In != nil && len(s.In) != s.Rows || s.Out != nil && len(s.Out) != s.Rows:
		return fmt.Errorf("tile: %d offsets in the operand and %d in the result, want %d (one for each row) or none",
			len(s.In), len(s.Out), s.Rows)
	case s.In == nil && s.Rows > DynamicRows:
		return fmt.Errorf("tile: %d rows with dynamic offsets, want at most %d", s.Rows, DynamicRows)
	case s.Start > FromResult:
		return fmt.Errorf("tile: unknown start %d", s.Start)
	case s.Unroll < 0 || s.PrefetchedLines < 0:
		return fmt.Errorf("tile: %d terms per iteration, %d prefetched lines: want no negative number", s.Unroll,
			s.PrefetchedLines)
	case len(s.Loops) > MaxLoops:
		return fmt.Errorf("tile: %d loops, want at most %d", len(s.Loops), MaxLoops)
	case s.hasBlocks() && (s.In == nil || s.hasIntSums()):
		return fmt.Errorf("tile: blocks of terms require rows at constant offsets, and floats")
	}
	if err := cmp.Or(s.checkIntegers(cpu), s.checkLevels(), s.checkPrefetch()); err != nil {
		return err
	}
	for i, l := range s.Loops {
		if l.In == Dynamic || l.Vec == Dynamic || l.Out != 0 || l.Trips < 1 && l.Trips != Dynamic || l.Block < 0 {
			return fmt.Errorf("tile: loop %d is invalid: %+v", i, l)
		}
	}
	for i, t := range s.Epilogue {
		if t.Op > Scale || t.Op == AddResult && s.hasIntSums() || t.Operand < 0 ||
			t.Operand >= jit.MaxOperands-EpilogueOperands {
			return fmt.Errorf("tile: epilogue step %d is invalid: %+v", i, t)
		}
	}
	if err := s.checkRuns(); err != nil {
		return err
	}
	if err := s.checkDistances(); err != nil || !s.MatrixUnit {
		return err
	}
	return s.checkUnit()
}

// checkIntegers checks the fields for bytes and words.
func (s *Spec) checkIntegers(cpu machine.Features) error {
	switch {
	case !SupportsIntegers(cpu) && s.hasIntSums():
		return fmt.Errorf("tile: no bytes and words for %v", cpu)
	case s.Words && cpu.Has(machine.NEON):
		return fmt.Errorf("tile: no words for %v", cpu)
	case s.SignedIn && !s.Bytes, s.Bytes && ReadsSigned(cpu, s.SignedIn) != s.SignedIn:
		return fmt.Errorf("tile: SignedIn requires Bytes and the result of ReadsSigned: signed %v, for %v", s.SignedIn, cpu)
	case s.Matrix && (!s.Bytes || !cpu.Has(machine.MatrixBytes) || s.Masked || s.PackStep != 0 ||
		slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Rows != 0 && r.Rows != uint32(1<<s.Rows-1) })):
		return fmt.Errorf("tile: products of byte matrices require Bytes, all rows in every run, whole vectors, no packing "+
			"and i8mm: not for %v", cpu)
	case s.Bytes && s.Size != 4:
		return fmt.Errorf("tile: groups of %d bytes, want 4", s.Size)
	case s.Words && (s.Size != 4 || s.Bytes):
		return fmt.Errorf("tile: pairs of words in %d bytes, want 4, without Bytes", s.Size)
	// The requirements of [Spec.Quantized].
	case s.Quantized > Signed,
		s.Quantized != NotQuantized && (!s.hasIntSums() || s.Out == nil || s.Start == FromResult || len(s.Epilogue) > 0):
		return fmt.Errorf("tile: a quantized result (%d) requires bytes or words, constant rows of the result, no epilogue, "+
			"and a start other than FromResult", s.Quantized)
	}
	return nil
}

func (s *Spec) checkPrefetch() error {
	if s.PackStep != 0 && (len(s.Runs) != 1 || len(s.Loops) > 0) {
		return fmt.Errorf("tile: %d runs and %d loops: packing requires one run without loops", len(s.Runs), len(s.Loops))
	}
	dynamic := len(s.Runs) == 1 && s.Runs[0].Terms == Dynamic && len(s.Loops) == 0 && s.Unroll == 0
	limit := maxPrefetches
	if s.PrefetchedLines > 0 {
		limit-- // the address of Prefetched occupies one of the registers
	}
	if len(s.Prefetch) > limit || len(s.Prefetch) > 0 && !dynamic {
		return fmt.Errorf("tile: %d operands to prefetch: want at most %d, one dynamic run, no loops, and no Unroll",
			len(s.Prefetch), limit)
	}
	for i, f := range s.Prefetch {
		if f.Lines < 1 || f.Every < DefaultUnroll || f.Every&(f.Every-1) != 0 {
			return fmt.Errorf("tile: prefetched operand %d is invalid: %+v", i, f)
		}
	}
	return nil
}

func (s *Spec) checkRuns() error {
	for i, r := range s.Runs {
		dynamic := r.Terms == Dynamic || r.InStep == Dynamic || r.VecStep == Dynamic
		switch {
		case dynamic && len(s.Runs) > 1:
			return fmt.Errorf("tile: run %d of %d is dynamic: want a single run", i, len(s.Runs))
		case r.Terms < 1 && r.Terms != Dynamic || r.In == Dynamic || r.Vec == Dynamic || r.Rows>>s.Rows != 0,
			r.Block < 0, r.Block > 0 && r.Terms == Dynamic:
			return fmt.Errorf("tile: run %d is invalid: %+v", i, r)
		}
	}
	return nil
}

// minRegisters returns the minimum number of vector registers for a tile: the accumulators, the vectors of a term, a
// broadcast element (unless multiplications read it from memory), and the mask (unless it is in a mask register).
func (s *Spec) minRegisters(cpu machine.Features) int {
	n := s.sumCount() + s.termVectors() + s.zeroVectors()
	if s.Quantized != NotQuantized {
		n = max(n, s.sumCount()+quantizedRegs-1) // the register of the broadcast element is added below
	}
	switch {
	case cpu.Has(machine.Vector512) && !s.hasIntSums() && !s.hasLevels():
		return max(n, s.sumCount()+1)
	case s.Words && s.Vectors > 1: // a product needs a temporary register before it is added
		n++
	}
	n++
	if s.masksTerms(cpu) {
		n++
	}
	return n
}

// sumCount returns the number of registers for accumulators. With Matrix, a register has sums of two rows, so an odd
// number of rows is rounded up.
func (s *Spec) sumCount() int {
	if s.Matrix {
		return (s.Rows + s.Rows%2) * s.Vectors
	}
	return s.Rows * s.Vectors
}

// termVectors returns the number of vectors of a term in the vector operand.
func (s *Spec) termVectors() int {
	if s.Matrix {
		return 2 * s.Vectors
	}
	return s.Vectors
}

// hasBlocks reports whether terms are divided into blocks.
func (s *Spec) hasBlocks() bool {
	return slices.ContainsFunc(s.Loops, func(l Loop) bool { return l.Block > 0 }) ||
		slices.ContainsFunc(s.Runs, func(r Run) bool { return r.Block > 0 })
}

// hasIntSums reports whether the accumulators are int32.
func (s *Spec) hasIntSums() bool { return s.Bytes || s.Words }

// mayBePartial reports whether the last vector may be partial.
func (s *Spec) mayBePartial(cpu machine.Features) bool {
	_, bytes := target.Vectors(cpu)
	return s.Lanes != 0 && s.Lanes != bytes/s.Size
}

// masksTerms reports whether the k-loop needs a mask in a vector register.
func (s *Spec) masksTerms(cpu machine.Features) bool {
	return target.MasksInVectors(cpu) && s.Masked && s.mayBePartial(cpu)
}
